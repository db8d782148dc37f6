"""A network at work on pictures of any size."""

import logging
import time
from collections.abc import Callable
from functools import cached_property

import numpy as np
import torch
from torch import Tensor, nn

from scumble.data.decoding import Samples
from scumble.engines import compile
from scumble.engines.dispatch import AUTO
from scumble.errors import EngineError, ImageError, NetworkError
from scumble.restore.canvas import Canvas, canvas_bytes, new_canvas
from scumble.restore.memory import (
    SHARE,
    SMALLEST,
    auto_side,
    bytes_per_pixel,
    free_bytes,
    is_out_of_memory,
)
from scumble.restore.reach import fingerprint, known_reach
from scumble.restore.windows import STEP, Span, windows

# Seen around tiles of a network that looks at the whole picture, in pixels.
WIDE_HALO = 48

_LUMA = np.array([0.299, 0.587, 0.114], np.float32)  # of BT.601

Told = Callable[[int], None]  # how many pixels of the picture are done

log = logging.getLogger(__name__)


class Runner:
    """Restores pictures with one network, in tiles where they are large."""

    def __init__(
        self,
        network: nn.Module,
        scale: int,
        engine: str = AUTO,
        threads: int | None = None,
        tile: int | None = None,
    ) -> None:
        self.network, self.scale = network, scale
        first = next(network.parameters(), torch.empty(0))
        self.device, self.dtype = first.device, first.dtype
        self.compiled = compile(network, engine, threads)
        self.seconds = 0.0  # that the engine was at work
        self.approximate = False  # whether tiles have changed a result
        self.tile = tile  # the side that was asked for
        self._tile = tile
        self._fixed = tile is not None

    @cached_property
    def halo(self) -> int | None:
        """How far the network looks; None if at the whole picture."""
        return known_reach(self.network, self.scale)

    @cached_property
    def fingerprint(self) -> str:
        """A word for the network and its weights."""
        return fingerprint(self.network)

    @property
    def smallest(self) -> int:
        """The smallest tile that is more than its halo."""
        return 2 * self._seen_around + STEP

    @property
    def _seen_around(self) -> int:
        return WIDE_HALO if self.halo is None else self.halo

    @cached_property
    def _bytes_per_pixel(self) -> float:
        return bytes_per_pixel(self.network)

    def restore(self, samples: Samples, told: Told = lambda done: None) -> Canvas:
        """Return the restored picture; where memory runs out, the tiles become smaller."""
        while True:
            side = self._side(*samples.shape[:2])
            try:
                return self._restore(samples, side, told)
            except (EngineError, MemoryError, RuntimeError, OSError) as error:
                if not is_out_of_memory(error):
                    raise
                self._halve(min(side, max(samples.shape[:2])), error)

    def _halve(self, side: int, error: BaseException) -> None:
        """Make tiles half as long from now on."""
        if side <= SMALLEST or side // 2 < self.smallest:
            reason = str(error).partition("\n")[0]
            raise EngineError(
                f"there is too little memory even for tiles of {side} pixels: {reason}"
            ) from error
        self._tile, self._fixed = side // 2, True
        log.warning("out of memory; going on with tiles of %d pixels", self._tile)

    def _side(self, height: int, width: int) -> int:
        """Return the side of tiles for a picture; its own longer side to leave it whole."""
        longer = max(height, width)
        if self._fixed and self._tile is not None:
            if longer > self._tile:
                self._check_tile(self._tile)
            return self._tile
        free = free_bytes()
        side = auto_side(self._bytes_per_pixel, free)
        if longer <= side:
            return side
        whole = height * width * self._bytes_per_pixel
        if self.halo is None and whole <= free / SHARE:
            return longer
        return max(side, self.smallest)

    def _check_tile(self, tile: int) -> None:
        if tile < self.smallest:
            raise EngineError(
                f"tiles need at least {self.smallest} pixels a side, because the network looks "
                f"{self._seen_around} around each, got {tile}"
            )

    def _restore(self, samples: Samples, side: int, told: Told) -> Canvas:
        height, width, channels = samples.shape
        halo = self._seen_around if max(height, width) > side else 0
        if halo and self.halo is None:
            self.approximate = True
        canvas = self._canvas(height, width, channels, 8 * samples.itemsize)
        flat = _flat_alpha(samples)
        done = 0
        for down, across in windows(height, width, side, halo):
            seen = samples[down.start : down.stop, across.start : across.stop]
            restored = self._run(seen, flat)
            kept = restored[_inside(down, self.scale), _inside(across, self.scale)]
            canvas.put(self.scale * down.right_from, self.scale * across.right_from, kept)
            done += (down.right_to - down.right_from) * (across.right_to - across.right_from)
            told(done)
        return canvas

    def _canvas(self, height: int, width: int, channels: int, depth: int) -> Canvas:
        size = (self.scale * height, self.scale * width, channels, depth)
        needed, free = canvas_bytes(*size), free_bytes()
        if needed > free:
            raise ImageError(
                f"{size[1]}x{size[0]} pixels need {needed / 1e9:.1f} GB of memory, of which "
                f"{free / 1e9:.1f} GB are free; close other programs, or cut the picture into parts"
            )
        return new_canvas(*size)

    def _run(self, samples: Samples, flat: int | None) -> Samples:
        """Return restored samples; alpha is a grey picture of its own."""
        channels = samples.shape[2]
        if channels in (1, 3):
            return self._colours(samples)
        colours = self._colours(samples[:, :, :-1])
        if flat is None:
            alpha = self._colours(samples[:, :, -1:])
        else:
            alpha = np.full((*colours.shape[:2], 1), flat, samples.dtype)
        return np.concatenate([colours, alpha], 2)

    def _colours(self, samples: Samples) -> Samples:
        """Return restored RGB or grey samples, at the depth they have.

        Beside the network itself all is done in NumPy: threads of PyTorch would fight for the
        cores with those that decode and encode.
        """
        most = np.float32(np.iinfo(samples.dtype).max)
        planes = np.moveaxis(samples, 2, 0).astype(np.float32)
        planes /= most
        if len(planes) == 1:
            planes = planes.repeat(3, 0)
        restored = self._enlarged(torch.from_numpy(planes).unsqueeze(0)).numpy()[0]
        if samples.shape[2] == 1:
            restored = np.tensordot(_LUMA, restored, 1)[np.newaxis]
        restored *= most
        np.rint(restored, out=restored)
        np.clip(restored, 0, most, out=restored)
        return np.ascontiguousarray(np.moveaxis(restored.astype(samples.dtype), 0, 2))

    def _enlarged(self, picture: Tensor) -> Tensor:
        """Return what the network makes of a picture, in memory of its own."""
        start = time.perf_counter()
        restored = self.compiled(picture.to(self.device, self.dtype)).float().cpu()
        self.seconds += time.perf_counter() - start
        height, width = picture.shape[2:]
        wanted = [1, 3, self.scale * height, self.scale * width]
        if list(restored.shape) != wanted:
            raise NetworkError(
                f"a network of x{self.scale} needs to make {wanted} of {width}x{height} pixels, "
                f"got {list(restored.shape)}"
            )
        if not np.isfinite(restored.numpy().sum()):
            raise NetworkError("the network made values that are no numbers")
        return restored


def _inside(span: Span, scale: int) -> slice:
    """Return where the right part of a window lies in its result."""
    return slice(scale * (span.right_from - span.start), scale * (span.right_to - span.start))


def _flat_alpha(samples: Samples) -> int | None:
    """Return the alpha that the whole picture has; None if it differs, or there is none."""
    if samples.shape[2] in (1, 3):
        return None
    alpha = samples[:, :, -1]
    return int(alpha[0, 0]) if (alpha == alpha[0, 0]).all() else None
