"""Ways to run a network fast; ``dispatch.py`` is where one is chosen."""

from scumble.engines.base import Compiled, Engine, Job
from scumble.engines.dispatch import ENGINES, compile

__all__ = ["ENGINES", "Compiled", "Engine", "Job", "compile"]
