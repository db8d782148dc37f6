"""Restoring pictures: one, or whole folders, fast and safe."""

from scumble.restore.form import Form
from scumble.restore.plan import Job, Plan, make_plan
from scumble.restore.restorer import DEFAULT, Batch, Restorer
from scumble.restore.results import Result
from scumble.restore.store import OVERWRITE, REFUSE, RESUME

__all__ = [
    "DEFAULT",
    "OVERWRITE",
    "REFUSE",
    "RESUME",
    "Batch",
    "Form",
    "Job",
    "Plan",
    "Restorer",
    "Result",
    "make_plan",
]
