"""Names and the objects they stand for."""

from collections.abc import Callable, Iterable, Iterator
from difflib import get_close_matches
from typing import Generic, TypeVar, cast

from scumble.errors import UnknownNameError

Entry = TypeVar("Entry")
Registered = TypeVar("Registered")


def unknown_name(kind: str, name: str, known: Iterable[str]) -> UnknownNameError:
    """Return the error for a name nobody knows, with the nearest known ones."""
    known = sorted(known)
    near = get_close_matches(name.lower(), known, n=2, cutoff=0.5)
    hint = f" Did you mean {' or '.join(map(repr, near))}?" if near else ""
    return UnknownNameError(f"no {kind} named {name!r}.{hint} Known: {', '.join(known)}.")


class Registry(Generic[Entry]):
    """Objects of one kind by name."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._entries: dict[str, Entry] = {}

    def register(self, name: str) -> Callable[[Registered], Registered]:
        """Return a decorator that files its object under ``name``."""

        def add(entry: Registered) -> Registered:
            assert name not in self._entries, f"two {self.kind}s named {name}"
            self._entries[name] = cast(Entry, entry)
            return entry

        return add

    def __getitem__(self, name: str) -> Entry:
        if name not in self._entries:
            raise unknown_name(self.kind, name, self._entries)
        return self._entries[name]

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)
