"""Every exception we raise.

    ScumbleError
    ├── PatternError       a pattern, group or layer that does not fit
    ├── BudgetError        a budget that cannot be read or met
    ├── UnknownNameError   a name that no registry knows
    ├── NetworkError       a network that cannot be built, run or pruned
    └── CheckpointError    a file that cannot be read or trusted

A message is one sentence: what was needed, what came and, where known, the fix.
"""


class ScumbleError(Exception):
    """Base of every error that is the caller's to fix."""


class PatternError(ScumbleError):
    """A pattern, group or layer that does not fit."""


class BudgetError(ScumbleError):
    """A budget that cannot be read or met."""


class UnknownNameError(ScumbleError):
    """A name that no registry knows."""


class NetworkError(ScumbleError):
    """A network that cannot be built, run or pruned."""


class CheckpointError(ScumbleError):
    """A file that cannot be read or trusted."""
