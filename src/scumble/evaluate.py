"""Network + pictures + protocol → scores and costs."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn

import scumble.zoo
from scumble.checkpoint import load
from scumble.data.photos import Skipped, check_pairs, find_pairs
from scumble.devices import pick_device
from scumble.engines.dispatch import AUTO
from scumble.errors import DataError, NetworkError
from scumble.inspection import Inspection, inspect
from scumble.metrics.protocols import PROTOCOLS
from scumble.models import NetworkSpec, spec_of
from scumble.scoring import Bicubic, Evaluation, PictureScore, Running, score_each


@dataclass(frozen=True)
class Report:
    """What ``scumble evaluate`` says: scores and costs."""

    model: str
    data: str
    evaluation: Evaluation
    skipped: tuple[Skipped, ...]  # pictures that were not even tried
    cost: Inspection | None  # None for a network without weights
    engine: str  # that ran the network

    @property
    def failed(self) -> bool:
        """Return whether any picture was left out."""
        return bool(self.skipped or self.evaluation.failed)

    def __str__(self) -> str:
        evaluation = self.evaluation
        lines = [_line(p.name, p.scores) for p in evaluation.scored]
        lines += [f"failed: {p.failure}" for p in evaluation.failed]
        lines += [f"skipped: {skip.reason}" for skip in self.skipped]
        lines += ["", *self._summary()]
        if self.cost is not None:
            height, width = self.cost.size
            macs = self.cost.cost.paper_macs / 1e9
            lines.append(
                f"{macs:.3f} GMACs (paper) on {width}x{height}, "
                f"{self.cost.cost.parameters:,} parameters; engine {self.engine}"
            )
        protocol = evaluation.protocol
        return "\n".join(
            [f"{self.model} on {self.data}, {protocol.name}:", protocol.description, "", *lines]
        )

    def _summary(self) -> list[str]:
        """Return the mean, and what is not in it."""
        evaluation = self.evaluation
        lines = [_line(f"mean of {len(evaluation.scored)}", evaluation.mean)]
        if evaluation.exact:
            names = ", ".join(picture.name for picture in evaluation.exact)
            lines.append(f"restored exactly, so without a PSNR and not in its mean: {names}")
        if self.failed:
            lines.append(f"failed: {len(evaluation.failed)}, skipped: {len(self.skipped)}")
        return lines

    def to_json(self) -> dict[str, Any]:
        """Return everything as plain data."""
        about = {"model": self.model, "data": self.data, "engine": self.engine}
        found: dict[str, Any] = {**about, **self.evaluation.to_json()}
        found["skipped"] = {str(skip.path): skip.reason for skip in self.skipped}
        if self.cost is not None:
            inspected = self.cost.to_json()
            found["cost"] = {
                key: inspected[key] for key in ("width", "height", "macs", "parameters")
            }
        return found


def evaluate(
    model: str,
    data: str | Path,
    protocol: str | None = None,
    tile: int | None = None,
    device: str | None = None,
    strict: bool = False,
    lpips: Path | None = None,
    told: Callable[[int, int], None] | None = None,
    network: str | None = None,
    engine: str = AUTO,
) -> Report:
    """Return the scores of a network on a folder of pictures.

    Args:
        model: a network of the zoo, a file, or ``bicubic``.
        data: a folder of photos, or of pairs.
        protocol: how to score; by default the one that fits the network's scale.
        tile: restore larger pictures in tiles of this side, with the same result.
        device: ``cpu`` or ``cuda``; by default ``cuda`` where there is one.
        strict: raise at the first bad picture instead of leaving it out.
        lpips: weights by which LPIPS is scored too.
        told: called after every picture with how many are done, and of how many.
        network: the network that a state dict of others belongs to, such as ``rfdn-x4``.
        engine: what to run it with; ``auto`` for the fastest that can.
    """
    where = pick_device(device)
    opened = _open(model, network)
    spec = None if opened is None else spec_of(opened)
    chosen = PROTOCOLS[protocol or f"sr-y-x{spec.arguments['scale'] if spec else 4}"]
    if spec is not None and spec.arguments["scale"] != chosen.scale:
        raise NetworkError(f"{chosen.name} needs a network of x{chosen.scale}, got {spec}")
    if lpips is not None:
        chosen = chosen.with_lpips(lpips)
    pairs, skipped = check_pairs(find_pairs(data, chosen.scale), chosen.scale, strict=strict)
    cost = None if opened is None else inspect(opened)
    running = Running.of(opened or Bicubic(chosen.scale), chosen.scale, where, engine, tile)
    scores: list[PictureScore] = []
    for score in score_each(running, pairs, chosen, strict):
        scores.append(score)
        if told is not None:
            told(len(scores), len(pairs))
    evaluation = Evaluation(chosen, tuple(scores))
    report = Report(model, str(data), evaluation, tuple(skipped), cost, running.compiled.engine)
    _refuse_nothing_scored(report)
    return report


def _open(model: str, belongs_to: str | None) -> nn.Module | None:
    """Return the network to be scored; None for bicubic."""
    if belongs_to is None:
        return None if model == "bicubic" else load(model)
    if model == "bicubic" or model in scumble.zoo.names():
        raise NetworkError(
            f"only files of others need to be told the network that they belong to, got "
            f"{belongs_to} for {model}; leave it out"
        )
    return load(model, NetworkSpec.parse(belongs_to).build())


def _refuse_nothing_scored(report: Report) -> None:
    if report.evaluation.scored:
        return
    reasons = [skip.reason for skip in report.skipped]
    reasons += [picture.failure or "" for picture in report.evaluation.failed]
    raise DataError(
        f"none of {len(reasons)} pictures in {report.data} could be scored: {reasons[0]}"
    )


def _line(name: str, scores: Mapping[str, float | None]) -> str:
    digits = {"psnr": 2, "ssim": 4, "lpips": 4}
    told = (
        f"{key} {value:.{digits[key]}f}" if value is not None else f"{key} inf"
        for key, value in scores.items()
    )
    return f"{name:<24} {'  '.join(told)}"
