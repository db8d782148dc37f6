"""Every exception we raise.

    ScumbleError
    ├── PatternError       a pattern, group or layer that does not fit
    ├── BudgetError        a budget that cannot be read or met
    ├── UnknownNameError   a name that no registry knows
    ├── NetworkError       a network that cannot be built, run or pruned
    ├── EngineError        a network that an engine cannot run
    ├── MetricError        pictures that cannot be compared
    ├── CheckpointError    a file that cannot be read or trusted
    ├── ExportError        a network that cannot be written for other programs
    ├── RecipeError        a recipe that says something we do not understand
    ├── TrainingError      a training run that cannot start or go on
    ├── ComparisonError    a comparison or report that cannot be made
    ├── ImageError         a picture that cannot be read, written or used
    ├── RestoreError       a batch of pictures that cannot be restored as asked
    └── DataError          a data set that does not fit

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


class EngineError(ScumbleError):
    """A network that an engine cannot run."""


class CheckpointError(ScumbleError):
    """A file that cannot be read or trusted."""


class ExportError(ScumbleError):
    """A network that cannot be written for other programs."""


class MetricError(ScumbleError):
    """Pictures that cannot be compared."""


class RecipeError(ScumbleError):
    """A recipe that says something we do not understand."""


class TrainingError(ScumbleError):
    """A training run that cannot start or go on."""


class ComparisonError(ScumbleError):
    """A comparison or report that cannot be made."""


class ImageError(ScumbleError):
    """A picture that cannot be read, written or used."""


class RestoreError(ScumbleError):
    """A batch of pictures that cannot be restored as asked."""


class DataError(ScumbleError):
    """A data set that does not fit."""
