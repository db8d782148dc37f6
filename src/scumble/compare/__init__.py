"""Many training runs side by side, and one table of them."""

from scumble.compare.cells import Plan, make_plan
from scumble.compare.grid import grid_names, grid_text
from scumble.compare.standing import look
from scumble.compare.work import Told, Work

__all__ = ["Plan", "Told", "Work", "grid_names", "grid_text", "look", "make_plan"]
