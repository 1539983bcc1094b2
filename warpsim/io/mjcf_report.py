"""What becomes of every feature of a compiled MuJoCo model: used, mapped, ignored or refused."""

from warpsim.model.model import ReportLine


def feature_report(m) -> tuple[list[ReportLine], list[str]]:
    """Report lines and errors for a compiled `mujoco.MjModel`."""
    return [], []
