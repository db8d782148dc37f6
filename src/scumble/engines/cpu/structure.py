"""Dataclasses as JSON, and back: whatever does not fit their types is refused."""

import types
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, Literal, Union, cast, get_args, get_origin, get_type_hints

Json = Any

_PLAIN = (str, int, bool, types.NoneType)


def to_json(value: object) -> Json:
    """Return a dataclass, and all that is in it, as JSON holds it."""
    if is_dataclass(value) and not isinstance(value, type):
        parts = {field.name: to_json(getattr(value, field.name)) for field in fields(value)}
        return {"is": type(value).__name__, **parts}
    if isinstance(value, Mapping):
        return {str(key): to_json(one) for key, one in cast(Mapping[Any, Any], value).items()}
    if isinstance(value, tuple):
        return [to_json(one) for one in cast(tuple[Any, ...], value)]
    return value


def from_json(kind: Any, value: Json) -> Any:
    """Return what ``to_json`` was given, of type ``kind``; anything else is a ``ValueError``."""
    own = type(cast(object, value))
    form, inside = get_origin(kind), get_args(kind)
    if form in (Union, types.UnionType):
        return _one_of(inside, value)
    if form is Literal and value in inside and own is str:
        return value
    if form is tuple and isinstance(value, list):
        several = cast(list[Json], value)
        kinds = [inside[0]] * len(several) if inside[-1] is Ellipsis else inside
        if len(kinds) == len(several):
            return tuple(from_json(one, item) for one, item in zip(kinds, several, strict=True))
    if form is Mapping and isinstance(value, dict):
        items = cast(dict[str, Json], value).items()
        return {key: from_json(inside[1], item) for key, item in items}
    if is_dataclass(kind) and isinstance(value, dict):
        return _dataclass(kind, cast(dict[str, Json], value))
    if kind is float and own in (int, float):
        return float(cast(float, value))
    if kind in _PLAIN and own is kind:
        return cast(Any, value)
    raise ValueError(f"{value!r:.50} is no {kind}")


def _one_of(kinds: tuple[Any, ...], value: Json) -> Any:
    for kind in kinds:
        try:
            return from_json(kind, value)
        except ValueError:
            continue
    raise ValueError(f"{value!r:.50} is none of {kinds}")


def _dataclass(kind: Any, value: dict[str, Json]) -> Any:
    hints = _hints(kind)
    if value.get("is") != kind.__name__ or value.keys() != {"is", *hints}:
        raise ValueError(f"{value!r:.50} is no {kind}")
    return kind(**{name: from_json(hint, value[name]) for name, hint in hints.items()})


@cache
def _hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind)
