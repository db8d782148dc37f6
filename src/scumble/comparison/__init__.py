"""What a comparison found, as data and as a table: written by ``compare``, read by ``report``."""

from scumble.comparison.found import (
    DENSE,
    FILE,
    TABLE,
    CellResult,
    Comparison,
    Figure,
    Place,
    Row,
    State,
)
from scumble.comparison.table import Entry, Line, Table, make_table, markdown, notes, title_of

__all__ = [
    "DENSE",
    "FILE",
    "TABLE",
    "CellResult",
    "Comparison",
    "Entry",
    "Figure",
    "Line",
    "Place",
    "Row",
    "State",
    "Table",
    "make_table",
    "markdown",
    "notes",
    "title_of",
]
