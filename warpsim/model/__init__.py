# SPDX-License-Identifier: Apache-2.0
"""The host description of one world: `Model`, the `ModelBuilder` that makes it, and its checks."""

from warpsim.model.builder import ModelBuilder
from warpsim.model.constraint_types import ConstraintType
from warpsim.model.hydroelastic import Hydroelastic
from warpsim.model.looks import Texture, VisualMaterial
from warpsim.model.model import GeomType, JointType, Model, ReportLine
from warpsim.model.mujoco_options import MuJoCoOptions
from warpsim.model.muscle import Muscle
from warpsim.model.tendon_paths import Pulley

__all__ = [
    "ConstraintType",
    "GeomType",
    "Hydroelastic",
    "JointType",
    "Model",
    "ModelBuilder",
    "MuJoCoOptions",
    "Muscle",
    "Pulley",
    "ReportLine",
    "Texture",
    "VisualMaterial",
]
