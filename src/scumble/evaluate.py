"""Network + pictures + protocol → scores."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from torch import Tensor, nn

import scumble.zoo
from scumble.checkpoint import load
from scumble.data.bicubic import resize
from scumble.data.images import to_float, to_uint8
from scumble.data.photos import Pair, Skipped, check_pairs, find_pairs, load_pair
from scumble.devices import pick_device
from scumble.errors import DataError, ImageError, MetricError, NetworkError
from scumble.inspection import Inspection, inspect
from scumble.metrics.protocols import PROTOCOLS, Protocol
from scumble.models import NetworkSpec, spec_of
from scumble.tiles import reach, run_tiled


def mean_score(scores: Iterable[float]) -> float | None:
    """Return the mean of the finite scores: a picture restored exactly has an infinite PSNR."""
    finite = [score for score in scores if isfinite(score)]
    return fmean(finite) if finite else None


@dataclass(frozen=True)
class PictureScore:
    """One picture's scores, or why it has none."""

    name: str
    scores: Mapping[str, float]
    failure: str | None = None


@dataclass(frozen=True)
class Evaluation:
    """The scores of a network on a set of pictures."""

    protocol: Protocol
    pictures: tuple[PictureScore, ...]

    @property
    def scored(self) -> list[PictureScore]:
        """Return the pictures that have scores."""
        return [picture for picture in self.pictures if picture.failure is None]

    @property
    def failed(self) -> list[PictureScore]:
        """Return the pictures that have none."""
        return [picture for picture in self.pictures if picture.failure is not None]

    @property
    def mean(self) -> dict[str, float | None]:
        """Return the mean of every metric over all scored pictures, but those without a number."""
        scored = self.scored
        names = scored[0].scores if scored else ()
        return {name: mean_score(picture.scores[name] for picture in scored) for name in names}

    @property
    def exact(self) -> list[PictureScore]:
        """Return the pictures that were restored exactly, whose PSNR is infinite."""
        return [p for p in self.scored if not all(map(isfinite, p.scores.values()))]

    def to_json(self) -> dict[str, Any]:
        """Return everything as plain data."""
        return {
            "protocol": self.protocol.name,
            "description": self.protocol.description,
            "mean": self.mean,
            "pictures": {picture.name: _plain(picture.scores) for picture in self.scored},
            "failed": {picture.name: picture.failure for picture in self.failed},
        }


def restore(
    network: nn.Module, degraded: Tensor, scale: int, tile: int | None = None, halo: int = 0
) -> Tensor:
    """Return the restored picture, floats in 0..1, of an 8-bit one ``[3, H, W]``."""
    device = next((p.device for p in network.parameters()), torch.device("cpu"))
    image = to_float(degraded).unsqueeze(0).to(device)
    with torch.inference_mode():
        if tile is None or max(image.shape[2:]) <= tile:
            return network(image)[0]
        return run_tiled(network, image, scale, tile, halo)[0]


def score_each(
    network: nn.Module,
    pairs: Iterable[Pair],
    protocol: Protocol,
    tile: int | None = None,
    strict: bool = False,
) -> Iterator[PictureScore]:
    """Yield the scores of one picture after the other; a bad picture does not stop the rest.

    With ``tile``, larger pictures are restored in tiles, with the same result.
    """
    halo = 0
    if tile is not None:
        found = reach(network, protocol.scale)
        if found is None:
            raise NetworkError(
                f"{type(network).__name__} sees the whole picture at once, so tiles would change "
                f"its result; evaluate it without tiles"
            )
        halo = found
    for pair in pairs:
        try:
            scores = _scores(network, pair, protocol, tile, halo)
        except (ImageError, DataError, MetricError, NetworkError) as error:
            if strict:
                raise
            yield PictureScore(pair.name, {}, str(error))
        else:
            yield PictureScore(pair.name, scores)


def _scores(
    network: nn.Module, pair: Pair, protocol: Protocol, tile: int | None, halo: int
) -> dict[str, float]:
    """Return the scores of one picture, or raise an error that names it."""
    degraded, clean = load_pair(pair, protocol.scale)
    try:
        restored = restore(network, degraded, protocol.scale, tile, halo)
    except (RuntimeError, NetworkError) as error:  # too small for a kernel, too large for memory
        height, width = degraded.shape[1:]
        reason = str(error).partition("\n")[0]
        raise NetworkError(
            f"{pair.clean}: {type(network).__name__} cannot be run on {width}x{height} pixels: "
            f"{reason}"
        ) from error
    try:
        return protocol.score(restored, clean)
    except MetricError as error:
        raise MetricError(f"{pair.clean}: {error}") from error


class Bicubic(nn.Module):
    """MATLAB's bicubic enlargement: the baseline of every table."""

    def __init__(self, scale: int) -> None:
        super().__init__()
        self.scale = scale

    def forward(self, image: Tensor) -> Tensor:
        """Return the picture, ``scale`` times as large."""
        return to_float(resize(to_uint8(image), self.scale))


@dataclass(frozen=True)
class Report:
    """What ``scumble evaluate`` says: scores and costs."""

    model: str
    data: str
    evaluation: Evaluation
    skipped: tuple[Skipped, ...]  # pictures that were not even tried
    cost: Inspection | None  # None for a network without weights

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
                f"{self.cost.cost.parameters:,} parameters"
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
        found = {"model": self.model, "data": self.data, **self.evaluation.to_json()}
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
    running = (opened or Bicubic(chosen.scale)).to(where).eval()
    scores: list[PictureScore] = []
    for score in score_each(running, pairs, chosen, tile, strict):
        scores.append(score)
        if told is not None:
            told(len(scores), len(pairs))
    report = Report(model, str(data), Evaluation(chosen, tuple(scores)), tuple(skipped), cost)
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


def _plain(scores: Mapping[str, float]) -> dict[str, float | None]:
    """Return scores as JSON can hold them: it knows no infinity."""
    return {name: score if isfinite(score) else None for name, score in scores.items()}


def _line(name: str, scores: Mapping[str, float | None]) -> str:
    digits = {"psnr": 2, "ssim": 4, "lpips": 4}
    told = (
        f"{key} {value:.{digits[key]}f}" if value is not None else f"{key} inf"
        for key, value in scores.items()
    )
    return f"{name:<24} {'  '.join(told)}"
