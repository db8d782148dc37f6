"""Pictures that a network restored → scores."""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import isfinite
from statistics import fmean
from typing import Any

import torch
from torch import Tensor, nn

from scumble.data.bicubic import resize
from scumble.data.images import to_float, to_uint8
from scumble.data.photos import Pair, load_pair
from scumble.engines.base import Compiled
from scumble.engines.dispatch import AUTO, compile
from scumble.errors import DataError, EngineError, ImageError, MetricError, NetworkError
from scumble.metrics.protocols import Protocol
from scumble.tiles import reach, run_tiled

log = logging.getLogger(__name__)


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


def restore(network: nn.Module, degraded: Tensor) -> Tensor:
    """Return the restored picture, floats in 0..1, of an 8-bit one ``[3, H, W]``."""
    device = next((p.device for p in network.parameters()), torch.device("cpu"))
    with torch.inference_mode():
        return network(to_float(degraded).unsqueeze(0).to(device))[0]


class Bicubic(nn.Module):
    """MATLAB's bicubic enlargement: the baseline of every table."""

    def __init__(self, scale: int) -> None:
        super().__init__()
        self.scale = scale

    def forward(self, image: Tensor) -> Tensor:
        """Return the picture, ``scale`` times as large."""
        return to_float(resize(to_uint8(image), self.scale))


@dataclass(frozen=True)
class Running:
    """A network made ready to be scored."""

    network: nn.Module
    compiled: Compiled
    may_fall_back: bool  # to the network itself, for a picture that the engine cannot take
    device: torch.device
    scale: int
    tile: int | None = None  # larger pictures are restored in tiles of this side
    halo: int = 0  # pixels around a tile that its result depends on

    @classmethod
    def of(
        cls, network: nn.Module, scale: int, device: torch.device, engine: str, tile: int | None
    ) -> "Running":
        """Return ``network`` ready to run; tiles that would change its result are refused."""
        halo = None if tile is None else reach(network, scale)
        if tile is not None and halo is None:
            raise NetworkError(
                f"{type(network).__name__} sees the whole picture at once, so tiles would change "
                f"its result; evaluate it without tiles"
            )
        chosen = engine
        if isinstance(network, Bicubic):  # nothing of it can be made native
            chosen = "reference"
            if engine not in (AUTO, chosen):
                raise NetworkError(f"bicubic runs without an engine, got {engine}; leave it out")
        compiled = compile(network.to(device).eval(), chosen)
        may_fall_back = chosen == AUTO and compiled.engine != "reference"
        return cls(network, compiled, may_fall_back, device, scale, tile, halo or 0)

    def restore(self, degraded: Tensor) -> Tensor:
        """Return the restored picture, floats in 0..1, of an 8-bit one ``[3, H, W]``."""
        image = to_float(degraded).unsqueeze(0).to(self.device)
        try:
            return self._run(self.compiled, image)
        except EngineError as error:
            if not self.may_fall_back:
                raise
            height, width = degraded.shape[1:]
            log.warning("a picture of %dx%d is run in PyTorch: %s", width, height, error)
        with torch.inference_mode():
            return self._run(self.network, image)

    def _run(self, run: Callable[[Tensor], Tensor], image: Tensor) -> Tensor:
        if self.tile is None or max(image.shape[2:]) <= self.tile:
            return run(image)[0]
        return run_tiled(run, image, self.scale, self.tile, self.halo)[0]


def score_each(
    running: Running, pairs: Iterable[Pair], protocol: Protocol, strict: bool = False
) -> Iterator[PictureScore]:
    """Yield the scores of one picture after the other; a bad picture does not stop the rest."""
    for pair in pairs:
        try:
            scores = _scores(running, pair, protocol)
        except (ImageError, DataError, MetricError, NetworkError) as error:
            if strict:
                raise
            yield PictureScore(pair.name, {}, str(error))
        else:
            yield PictureScore(pair.name, scores)


def _scores(running: Running, pair: Pair, protocol: Protocol) -> dict[str, float]:
    """Return the scores of one picture, or raise an error that names it."""
    degraded, clean = load_pair(pair, protocol.scale)
    try:
        restored = running.restore(degraded)
    # Too small for a kernel, too large for memory.
    except (RuntimeError, NetworkError, EngineError) as error:
        height, width = degraded.shape[1:]
        reason = str(error).partition("\n")[0]
        raise NetworkError(
            f"{pair.clean}: {type(running.network).__name__} cannot be run on {width}x{height} "
            f"pixels: {reason}"
        ) from error
    try:
        return protocol.score(restored, clean)
    except MetricError as error:
        raise MetricError(f"{pair.clean}: {error}") from error


def _plain(scores: Mapping[str, float]) -> dict[str, float | None]:
    """Return scores as JSON can hold them: it knows no infinity."""
    return {name: score if isfinite(score) else None for name, score in scores.items()}
