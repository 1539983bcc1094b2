# SPDX-License-Identifier: Apache-2.0
"""How many worlds fit, and what is said where they do not."""

import pytest

import warpsim as ws

OPTIONS = {
    "default": {},
    "gradients": {"requires_grad": True, "dtype": "float64"},
    "LCP": {"solver": ws.LCP(), "max_contacts": 12},
    "variational": {"integrator": ws.Variational()},
}


@pytest.mark.parametrize("key", OPTIONS)
def test_worlds_that_fit(assets, key):
    """A simulator of the number found takes what it may take, less the two states, within a tenth."""
    model, memory = ws.load(assets("half_cheetah")), 8_000_000
    worlds = ws.fit_worlds(model, "cpu", memory=memory, **OPTIONS[key])
    sim = ws.Simulator(model, worlds, device="cpu", **OPTIONS[key])
    assert 0.9 * memory < sim.bytes_per_world() * worlds <= memory


def test_more_memory_holds_more_worlds(assets):
    model = ws.load(assets("half_cheetah"))
    assert ws.fit_worlds(model, "cpu") > ws.fit_worlds(model, "cpu", memory=10**7) > 100


def test_no_world_fits(assets):
    with pytest.raises(MemoryError, match=r"one world .* needs .* MB on cpu, and 0\.001 MB are free"):
        ws.fit_worlds(ws.load(assets("humanoid")), "cpu", memory=1000)


@pytest.mark.parametrize(
    ("options", "words"),
    [({"worlds": 3}, "leave worlds= out"), ({"memory": -1}, "memory"), ({"memory": "4 GB"}, "memory")],
)
def test_bad_arguments(assets, options, words):
    with pytest.raises(ValueError, match=words):
        ws.fit_worlds(ws.load(assets("half_cheetah")), "cpu", **options)


def test_too_many_worlds_are_named(assets, monkeypatch):
    """Where an array cannot be had, the error names it, its shape, and how many worlds fit; nothing is left behind."""
    import warp as wp

    given = wp._src.types.array._init_new

    def scarce(self, dtype, shape, strides, device, pinned):
        if isinstance(shape, tuple) and shape == (5000, 16, 3, 6):
            raise RuntimeError("Failed to allocate 1 bytes on device 'cpu'")
        given(self, dtype, shape, strides, device, pinned)

    def _init_new(self, dtype, shape, strides, device, pinned):
        scarce(self, dtype, shape, strides, device, pinned)

    monkeypatch.setattr(wp._src.types.array, "_init_new", _init_new)
    with pytest.raises(
        MemoryError, match=r"no memory for .*J \(5000, 16, 3, 6\) of float32 .*5000 worlds do not fit, at most \d+ do"
    ):
        ws.Simulator(ws.load(assets("half_cheetah")), 5000, device="cpu")
