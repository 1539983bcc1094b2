# SPDX-License-Identifier: Apache-2.0
"""`export`: a trained policy as ONNX and as a program of `torch.export`, with what a robot needs beside it."""

import json
import logging
import os
import pathlib
import warnings

import torch

from warpsim.base.extras import import_or_explain
from warpsim.envs.onnx_network import OnnxNetwork
from warpsim.envs.onnx_policy import KEY
from warpsim.envs.policy_description import FORMAT, describe
from warpsim.envs.training import CHECKPOINT, load_learner
from warpsim.files.output import check_different, check_file, replacing

DESCRIPTION = "warpsim.json"  # name of the description inside a program of `torch.export`
AGREE, TRIED = 1e-5, 64  # largest difference between ONNX and torch, relative to the largest action; observations tried


def export(folder, onnx=None, *, torch_program=None, task=None) -> dict:
    """Write the policy of a training as a file that needs no warpsim.

    The network takes observations `(batch, n)` of float32 and returns actions `(batch, m)` as the environment takes
    them: normalization of observations is inside, and SHAC's bounds; PPO gives the mean. Beside each file `x.onnx` lies
    `x.json`, which is inside it too: task, robot, layout of observations, joints, actuators, bounds, rates, delays.

    Parameters
    ----------
    folder : path
        What `warpsim train --out` wrote.
    onnx : path
        An ONNX file (`.onnx`).
    torch_program : path
        A program of `torch.export` (`.pt2`).
    task : str or class
        The task, where it has another name today.

    Returns
    -------
    dict
        The description.

    Raises
    ------
    ValueError
        No file is asked for, one cannot be written, or weights are not finite.

    Examples
    --------
    >>> from warpsim.envs.training import export                        # doctest: +SKIP
    >>> export("out/hopper", "policy.onnx")["observation"]["size"]      # doctest: +SKIP
    11
    """
    written = check_outputs(onnx, torch_program)
    if onnx is not None:
        for package in ("onnx", "onnxscript", "onnxruntime"):
            import_or_explain(package, "export")
    learner = load_learner(os.path.join(folder, CHECKPOINT), task=task, device="cpu", policy_only=True)
    policy = learner.policy().eval()
    trained = {"algorithm": learner.algorithm, "seed": learner.seed, "env_steps": learner.trained_steps}
    about = describe(learner.kind, learner.task, learner._judged_by(), trained)
    text = json.dumps(about, indent=1) + "\n"
    size = about["observation"]["size"]
    program = torch.export.export(
        policy, (torch.zeros(2, size),), dynamic_shapes=({0: torch.export.Dim("batch", min=1)},)
    )
    if torch_program is not None:
        with replacing(written[torch_program]) as new:
            torch.export.save(program, new, extra_files={DESCRIPTION: text})
    if onnx is not None:
        with replacing(written[onnx]) as new:
            _write_onnx(program, policy, size, text, new)
    for path in {json_beside(path) for path in written.values()}:
        with replacing(path) as new:
            new.write_text(text)
    return about


def json_beside(path: pathlib.Path) -> pathlib.Path:
    """The description's file beside a network's."""
    return path.with_suffix(".json")


def check_outputs(onnx, torch_program) -> dict:
    """The outputs as paths, by what was given. Raises `ValueError` where one cannot be written."""
    if onnx is None and torch_program is None:
        raise ValueError("export writes nothing; give --onnx policy.onnx, --torch policy.pt2, or both")
    given = [(path, end) for path, end in ((onnx, ".onnx"), (torch_program, ".pt2")) if path is not None]
    found = {path: check_file(path, (end,)) for path, end in given}
    for path in {json_beside(path) for path in found.values()}:
        if check_file(path).exists() and not _is_description(path):
            raise ValueError(f"{path} is there and is no policy's description; give the policy another name")
    check_different(found.values())
    return found


def _is_description(path: pathlib.Path) -> bool:
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError):
        return False
    return isinstance(found, dict) and found.get("format") == FORMAT


def _write_onnx(program, policy, size: int, text: str, path: pathlib.Path) -> None:
    """Write a program as ONNX, without what the exporter notes of this machine, and run it once."""
    import onnx

    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)  # else it names packages that policies do not need
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = torch.onnx.export(
            program, dynamo=True, input_names=["observation"], output_names=["action"], verbose=False
        ).model_proto
    logger.setLevel(level)
    for node in made.graph.node:
        del node.metadata_props[:]
    onnx.helper.set_model_props(made, {KEY: text})
    made.producer_name = "warpsim"
    onnx.checker.check_model(made)
    path.write_bytes(made.SerializeToString(deterministic=True))
    tried = torch.randn(TRIED, size, generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        wanted = policy(tried).numpy()
    off = abs(OnnxNetwork(path)(tried.numpy()) - wanted).max()
    if not off <= AGREE * max(1.0, abs(wanted).max()):
        raise ValueError(f"{path.name}: onnxruntime's actions differ from torch's by {off:.1e}; nothing is written")
