"""A comparison made by hand."""

from scumble.comparison import CellResult, Comparison, Place


def cell(method: str, budget: str = "1/8", psnr: float | None = 25.0, **more) -> CellResult:
    """Return a cell of CARN x4; without a PSNR it is not done."""
    given = {"network": "carn-x4", "label": method, "m": 32, "seed": 0, "setting": ""}
    given |= {key: more.pop(key) for key in list(more) if key in given}
    place = Place(method=method, budget=budget, **given)
    name = "_".join((place.network, place.label, budget.replace("/", "-"), str(place.seed)))
    if psnr is None:
        return CellResult(name=name, place=place, **{"state": "waiting", **more})
    known = {
        "state": "done",
        "macs": {"conv": 12_500_000_000, "paper": 13_180_000_000},
        "parameters": 144_195,
        "scores": {"Urban100": {"psnr": psnr, "ssim": psnr / 40}},
    }
    return CellResult(name=name, place=place, **(known | more))


def comparison(*cells: CellResult, data: tuple[str, ...] = ("Urban100",), **more) -> Comparison:
    given = {
        "title": "by hand",
        "sources": {},
        "data": data,
        "folders": {},
        "protocols": dict.fromkeys(data, "sr-y-x4"),
        "cells": cells,
        "date": "2026-01-01",
        "command": "scumble compare by-hand",
        "versions": {"scumble": "9"},
    }
    return Comparison(**(given | more))
