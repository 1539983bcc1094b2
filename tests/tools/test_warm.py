# SPDX-License-Identifier: Apache-2.0
"""`warpsim warm`: what it compiles, what it says, and what an interrupt leaves."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import warp as wp

import warpsim as ws
from benchmarks.gpu.trace import step_launches
from scenes.bodies import body_on_plane
from warpsim.device.copies import block_of
from warpsim.tools import cli_warm, warm
from warpsim.tools.cli import main

HINGE = '<mujoco><worldbody><body><joint/><geom size=".1" pos=".3 0 0"/></body></worldbody></mujoco>'
# Few and small modules: a hinge without contact.
SMALL = ("--device", "cpu", "--contact", "none")


@pytest.fixture
def hinge(tmp_path):
    path = tmp_path / "hinge.xml"
    path.write_text(HINGE)
    return path


def run(capsys, *args) -> tuple[int, str, str]:
    """Exit code, output and errors of one command."""
    capsys.readouterr()
    code = main(["warm", *map(str, args)])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_a_second_call_has_nothing_to_do(hinge, capsys):
    """Whatever the cache held, the first call completes it, and the next one says so in one line."""
    assert run(capsys, hinge, *SMALL)[0] == 0
    code, out, err = run(capsys, hinge, *SMALL)
    assert code == 0 and err == "" and out.count("\n") == 1
    assert out.startswith("nothing to do: all ") and out.endswith(" kernel modules are compiled for cpu\n")


@pytest.mark.parametrize("requires_grad", [False, True])
def test_a_simulator_launches_nothing_else(requires_grad, monkeypatch):
    """Steps, resets, readings and gradients launch kernels of the listed modules alone; listing executes none."""
    model = body_on_plane("box", [0.1, 0.1, 0.1], height=0.0999, friction=0.4)
    options = {"worlds": 2, "dtype": "float64", "device": "cpu", "threads": 1, "requires_grad": requires_grad}
    launched, launch = set(), wp.launch

    def noted(kernel, *arguments, **named):
        launched.add(kernel.module.name)
        return launch(kernel, *arguments, **named)

    monkeypatch.setattr(wp, "launch", noted)
    listed = {kernel.module.name for kernel in warm.kernels_of(ws.Simulator(model, **options))}
    assert not launched
    sim = ws.Simulator(model, **options)
    state = sim.rollout(sim.state(), steps=2).final
    sim.reset(state, [1])
    sim.energy(state)
    sim.contacts(sim.step(state))
    sim.step(state, wrench=np.zeros((2, model.nbody, 6)))
    if requires_grad:
        start = sim.state()
        with wp.Tape() as tape:
            end = sim.step(start)
        tape.backward(grads={end.q: wp.ones_like(end.q)})
        sim.linearize(start)
    assert len(launched) > 5 and launched <= listed


@pytest.mark.parametrize("file", ["ant", "hopper"])
@pytest.mark.parametrize("solver", [ws.SAP(), ws.SAP(approximation="convex"), ws.LCP()], ids=lambda s: type(s).__name__)
def test_kernels_of_a_gpu_are_those_that_its_steps_launch(file, solver):
    """Of several lanes per world too, which the CPU does not launch."""
    model = ws.load(ws.robots.path(file))
    sims = [ws.Simulator(model, worlds=2, device="cpu", solver=solver, threads=1) for _ in range(2)]
    launches = step_launches(sims[0], sims[0].state(), make=lambda launch: None)
    launched = {launch.kernel.module.name for launch in launches if launch.kernel is not None}
    with warm.as_on_gpu(sims[1]):
        listed = {kernel.module.name for kernel in warm.kernels_of(sims[1])}
    assert launched <= listed


def test_machine_code_for_a_gpu_that_is_not_there(monkeypatch, tmp_path):
    """Files of the names that Warp looks for on such a GPU, for older and newer drivers, with what it needs to load them; once."""
    if 90 not in warm.gpu_archs():
        pytest.skip("this Warp has no CUDA compiler for sm_90")
    monkeypatch.setattr(wp.config, "kernel_cache_dir", str(tmp_path))

    @wp.kernel(module="unique")
    def double(x: wp.array(dtype=float)):
        x[wp.tid()] *= 2.0

    kernels = [double]
    made, files, size = warm.compile_for_gpus(kernels, [90], 1)
    assert (made, files) == (2, 2) and size > 1000
    module = double.module
    name = module.get_module_identifier(block_of(module.kernels.values()))
    assert {path.name for path in (tmp_path / name).iterdir()} >= {
        f"{name}.sm90.cubin",
        f"{name}.sm90.ptx",
        f"{name}.meta",
    }
    assert warm.compile_for_gpus(kernels, [90], 1) == (0, 2, size)


def test_all_cores_whatever_omp_num_threads_is(monkeypatch, hinge, capsys):
    """The variable that keeps steps on one thread does not keep compilers on one; `--workers` does."""
    seen = []
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(5)), raising=False)
    monkeypatch.setattr("warpsim.device.cores._group_limit", lambda: None)
    monkeypatch.setattr(warm, "compile_kernels", lambda kernels, device, workers, bar: seen.append(workers) or (1, 2))
    assert run(capsys, hinge, *SMALL)[0] == 0
    code, out, _ = run(capsys, hinge, *SMALL, "--workers", 3)
    assert code == 0 and seen == [5, 3]
    assert out.startswith("compiled 1 of 2 kernel modules for cpu in ")


@pytest.mark.parametrize("contact", cli_warm.CONTACT)
def test_every_contact_model_and_the_robots_of_the_package(contact, monkeypatch, capsys):
    """Without a file the kernels of all robots are listed, for each contact model."""
    seen = []
    monkeypatch.setattr(
        warm, "compile_kernels", lambda kernels, *rest: seen.append({k.module.name for k in kernels}) or (0, 1)
    )
    assert run(capsys, "--device", "cpu", "--contact", contact)[0] == 0
    assert len(seen[0]) > 5 and all("float64" not in name or contact == "compliant" for name in seen[0])


@pytest.mark.parametrize(
    "arguments, text",
    [
        (("--workers", "0"), "workers is 0"),
        (("nowhere.xml",), "nowhere.xml"),
        (("--contact", "mujoco", "--integrator", "variational"), "Variational"),
        (("--device", "cuda:99"), "cuda:99"),
        (("--arch", "12"), "--arch is 12"),
        (("--arch", "90", "--device", "cpu"), "leave out --device cpu"),
    ],
)
def test_bad_requests(arguments, text, capsys):
    """Each is one line and exit code 2."""
    code, _, err = run(capsys, *arguments)
    assert code == 2 and text in err and err.count("\n") == 1


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="signals are of Unix")
def test_a_second_interrupt_ends_at_once(hinge, tmp_path, from_terminal):
    """The first says what it waits for; the second does not wait, and prints no traceback."""
    program = (
        "import sys, threading, time\nfrom warpsim.tools import cli, warm\n"
        "def compile_kernels(*arguments):\n"
        "    threading.Thread(target=time.sleep, args=(300,)).start()  # as the compiler's, which Python waits for\n"
        "    print('compiling', flush=True)\n    time.sleep(300)\n"
        "warm.compile_kernels = compile_kernels\nsys.exit(cli.main(sys.argv[1:]))\n"
    )
    command = [sys.executable, "-c", program, "warm", str(hinge), *SMALL]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "compiling\n"
    process.send_signal(signal.SIGINT)
    for line in process.stderr:
        if "interrupted" in line:
            break
        assert "finishing" in line or "Warp" in line
    process.send_signal(signal.SIGINT)
    _, rest = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGINT and rest == ""


@pytest.mark.slow
def test_an_interrupt_leaves_nothing_half_done(hinge, tmp_path, from_terminal):
    """In an empty cache: Ctrl-C ends the command with 130, what is there is whole, and the next call does the rest."""
    cache = tmp_path / "cache"
    environment = dict(os.environ, WARP_CACHE_PATH=str(cache), OMP_NUM_THREADS="1")
    command = [sys.executable, "-c", "import sys; from warpsim.tools.cli import main; sys.exit(main())", "warm"]
    command += [str(hinge), *SMALL, "--workers", "2"]
    first = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while not list(cache.glob("*/*/*.o")) and first.poll() is None:
        time.sleep(0.1)
    first.send_signal(signal.SIGINT)
    out, err = first.communicate(timeout=300)
    assert first.returncode == 130 and out == "" and "interrupted" in err
    whole = [path.parent for path in cache.glob("*/*/*.o")]
    folders = [path for path in cache.glob("*/wp_*") if path.is_dir()]
    assert sorted(whole) == sorted(folders)
    for folder in folders:
        assert [json.loads(path.read_text()) for path in folder.glob("*.meta")]
    rest = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    compiled, modules = (int(rest.split()[place]) for place in (1, 3))  # "compiled N of M kernel modules"
    assert compiled == modules - len(folders) > 0
    again = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    assert again.startswith(f"nothing to do: all {modules} ")
