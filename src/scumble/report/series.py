"""Which rows make one line of a plot, and how it is drawn."""

from collections.abc import Iterable
from dataclasses import dataclass

from scumble.comparison import DENSE, Place, Row, title_of
from scumble.report.ink import INKS, MARKERS, Hand

# Methods with a colour of their own; others take what is left, in order.
_OWN = ("sls", "oneshot", "sr-ste", "filter")
_OTHERS = tuple(role for role in INKS if role.startswith("other"))

Key = tuple[str, str]  # label of the method, setting


@dataclass(frozen=True)
class Series:
    """Rows of one method in one setting, at every budget."""

    key: Key
    title: str
    hand: Hand


def key_of(place: Place) -> Key:
    """Return what makes two places of one line: method and setting."""
    return place.label, place.setting


def series_of(rows: Iterable[Row]) -> dict[Key, Series]:
    """Return every line, in the order of the table; a dense network is none."""
    keys = dict.fromkeys(key_of(row.place) for row in rows if row.place.method != DENSE)
    labels = {label for label, _ in keys}
    made: dict[Key, Series] = {}
    used: set[str] = set()
    for label, setting in keys:
        own = label if label in _OWN and label not in used else None
        role = own or next((r for r in _OTHERS + _OWN if r not in used), _OTHERS[0])
        used.add(role)
        title = title_of(label) if len(labels) > 1 or not setting else ""
        title = " ".join(word for word in (title, setting) if word)
        made[label, setting] = Series(
            (label, setting), title, Hand(role, MARKERS[(_OWN + _OTHERS).index(role)])
        )
    return made
