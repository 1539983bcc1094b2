# SPDX-License-Identifier: Apache-2.0
"""Signals that end a program: Ctrl-C while kernels are compiled and graphs captured; what stays ignored."""

import os
import signal
import threading
import time

import numpy as np
import pytest
import warp as wp

import warpsim as ws
from scenes.examples import asset
from warpsim.device.interrupts import ended_by_signals, load_together, stop_requests, undisturbed
from warpsim.device.replay import capturing

pytestmark = pytest.mark.usefixtures("from_terminal")


def ctrl_c():
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(0.01)  # Python looks for it between two instructions


def test_it_comes_at_the_end_of_what_may_not_be_torn():
    done = []
    with pytest.raises(KeyboardInterrupt):
        with undisturbed():
            ctrl_c()
            done.append(1)
    assert done == [1]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    with pytest.raises(KeyboardInterrupt):
        ctrl_c()


def test_other_threads_change_nothing():
    seen = []

    def work():
        with undisturbed():
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [signal.default_int_handler]


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("name", ["capture_begin", "capture_end"])
@pytest.mark.parametrize("at", range(3))
def test_a_capture_is_not_torn(monkeypatch, name, when, at):
    """An interrupt at each of the captures of a step; the steps after it are executed, with the bits of others."""
    sim = ws.Simulator(ws.load(asset("ant")), 2, device="cpu", dtype="float64", threads=1)
    state, real, calls = sim.state(), getattr(wp, name), []

    def torn(*arguments, **options):
        calls.append(1)
        if len(calls) == at + 1 and when == "before":
            ctrl_c()
        result = real(*arguments, **options)
        if len(calls) == at + 1 and when == "after":
            ctrl_c()
        return result

    monkeypatch.setattr(wp, name, torn)
    interrupted = 0
    for _ in range(4):
        try:
            sim.step(state, out=state)
        except KeyboardInterrupt:
            interrupted += 1
        assert not capturing(sim.device)
    assert interrupted == (len(calls) > at)
    assert interrupted or at > 1
    monkeypatch.undo()
    again = sim.state()
    for _ in range(4):
        sim.step(again, out=again)
    other = ws.Simulator(ws.load(asset("ant")), 2, device="cpu", dtype="float64", threads=1)
    expected = other.state()
    for _ in range(4):
        other.step(expected, out=expected)
    assert np.array_equal(again.q.numpy(), expected.q.numpy())
    assert np.array_equal(again.v.numpy(), expected.v.numpy())


def test_compilation_is_left_at_once(monkeypatch):
    """Modules in work are finished by other threads, those that wait are not begun."""
    begun, release = [], threading.Event()

    def load(device, modules, block_dim, max_workers):
        begun.append(modules[0])
        release.wait(20)

    monkeypatch.setattr(wp, "force_load", load)
    threading.Timer(0.2, os.kill, [os.getpid(), signal.SIGINT]).start()
    start = time.perf_counter()
    with pytest.raises(KeyboardInterrupt):
        load_together("cpu", ["a", "b", "c", "d"], 1, 2)
    assert time.perf_counter() - start < 5.0
    release.set()
    time.sleep(0.2)
    assert sorted(begun) == ["a", "b"]


def test_what_is_ignored_stays_ignored():
    """`nohup` and a shell's job in the background have signals ignored: neither a loop's stop nor an orderly end hears them; others are heard once."""
    send = lambda number: (os.kill(os.getpid(), number), time.sleep(0.01))  # noqa: E731
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with ended_by_signals():
        with stop_requests() as stops:
            send(signal.SIGINT)
            send(signal.SIGHUP)
            assert stops == []
            send(signal.SIGTERM)
            assert stops == [signal.SIGTERM]
            with pytest.raises(SystemExit) as end:  # a second one acts as it would without the loop
                send(signal.SIGTERM)
        assert end.value.code == 128 + signal.SIGTERM
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    assert signal.getsignal(signal.SIGINT) is signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
