"""Pictures in, better pictures out."""

import json
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, overload

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import nn

from scumble.checkpoint import load
from scumble.data.decoding import Samples
from scumble.engines.dispatch import AUTO
from scumble.errors import EngineError, ImageError, NetworkError
from scumble.files import atomic_write
from scumble.models import spec_of
from scumble.restore.cluster import Cluster
from scumble.restore.form import Form
from scumble.restore.pipeline import Pipeline, Told
from scumble.restore.plan import FAILED as FAILED_FILE
from scumble.restore.plan import Job, Plan, make_plan
from scumble.restore.results import DONE, FAILED, SKIPPED, Ledger, Result
from scumble.restore.runner import Runner
from scumble.restore.store import REFUSE, Store

DEFAULT = "carn-x4"

_PLAIN = Form()


def _tell_nobody(job: Job, done: int) -> None:
    """Do nothing with how far a picture is."""


class Restorer:
    """A network ready to restore pictures and folders of them.

    Args:
        model: a network of the zoo, a file, or a module that takes RGB in 0..1.
        scale: what the network enlarges by, checked; found out if None.
        engine: the engine to run it with; ``auto`` for the fastest that can.
        threads: how many threads the engine runs on; all cores if None.
        tile: the side of the tiles that large pictures are restored in, with what is seen around
            them; what fits the free memory if None.

    >>> import scumble, numpy as np
    >>> network = scumble.build("edsr-x2", features=8, blocks=1)
    >>> scumble.Restorer(network).image(np.zeros((4, 6, 3), np.uint8)).shape
    (8, 12, 3)
    """

    def __init__(
        self,
        model: str | Path | nn.Module = DEFAULT,
        *,
        scale: int | None = None,
        engine: str = AUTO,
        threads: int | None = None,
        tile: int | None = None,
    ) -> None:
        network = model if isinstance(model, nn.Module) else load(model)
        found = _scale_of(network)
        if scale is not None and scale != found:
            raise NetworkError(f"x{scale} needs a network that enlarges by {scale}, got x{found}")
        if tile is not None and tile < 1:
            raise EngineError(f"a tile has at least 1 pixel a side, got {tile}")
        self.scale, self.threads = found, threads
        self.runner = Runner(network, found, engine, threads, tile)

    @overload
    def image(self, picture: Image.Image) -> Image.Image: ...

    @overload
    def image(self, picture: NDArray[Any]) -> Samples: ...

    def image(self, picture: Image.Image | NDArray[Any]) -> Image.Image | Samples:
        """Return a picture restored: a Pillow image of one, an array of an array.

        Grey or RGB, with alpha or without: an array is ``[H, W]`` or ``[H, W, channels]`` of
        uint8 or uint16, and so is what comes back. Orientation is left to the caller.
        """
        if isinstance(picture, Image.Image):
            image = self.runner.restore(_samples_of(picture)).image()
            if "icc_profile" in picture.info:
                image.info["icc_profile"] = picture.info["icc_profile"]
            return image
        canvas = self.runner.restore(_checked(picture))
        restored = canvas.rows(0, canvas.height)
        return restored[:, :, 0] if picture.ndim == 2 else restored

    def folder(
        self,
        source: str | Path | Sequence[str | Path],
        output: str | Path,
        *,
        form: Form = _PLAIN,
        recursive: bool = False,
        existing: str = REFUSE,
        cluster: str | None = None,
        told: Told = _tell_nobody,
    ) -> "Batch":
        """Return the results of a batch, which are made as they are asked for.

        Args:
            source: a picture, a folder of pictures, or several.
            output: the folder of results; for one picture also the file to write.
            form: how to write the results.
            recursive: whether to look into folders inside of folders.
            existing: ``refuse``, ``resume`` or ``overwrite`` results that are there already.
            cluster: the address of a Ray cluster, ``auto`` for the one that runs, ``local`` for one
                of this machine alone; None for no cluster.
            told: called with a picture and how many of its pixels are done, while it is restored.
        """
        inputs = [source] if isinstance(source, str | Path) else source
        plan = make_plan([Path(path) for path in inputs], Path(output), form, recursive)
        return self.batch(plan, form, existing, cluster, told)

    def batch(
        self,
        plan: Plan,
        form: Form = _PLAIN,
        existing: str = REFUSE,
        cluster: str | None = None,
        told: Told = _tell_nobody,
    ) -> "Batch":
        """Return the results of a plan, which are made as they are asked for."""
        store = Store(plan, existing)
        settings = form.digest(
            self.runner.fingerprint, str(self.scale), self.runner.compiled.engine
        )
        ledger = Ledger(store, form, settings)
        if cluster is None:
            return Batch(self.runner, store, Pipeline(self.runner, ledger).run(plan.jobs, told))
        machines = Cluster(self.runner, ledger, cluster, self.threads)
        return Batch(self.runner, store, machines.run(plan.jobs, told))


class Batch(Iterator[Result]):
    """The results of a plan, one picture after the other, and what they come to."""

    def __init__(self, runner: Runner, store: Store, running: Generator[Result]) -> None:
        self.runner, self.plan = runner, store.plan
        self.results: list[Result] = []
        self.seconds = 0.0  # from the first question for a result to the last answer
        self._store, self._running = store, running
        self._store.__enter__()
        self._busy_before = runner.seconds
        self._start: float | None = None

    def __next__(self) -> Result:
        """Return the next result."""
        self._start = self._start or time.perf_counter()
        try:
            result = next(self._running)
        except BaseException:
            self.close()
            raise
        finally:
            self.seconds = time.perf_counter() - self._start
        self.results.append(result)
        return result

    def close(self) -> None:
        """End the batch: what is being written is finished, the rest is left for later."""
        self._running.close()
        self._store.__exit__(None, None, None)
        if self.plan.whole_folder:
            self._list_failures()

    def count(self, status: str) -> int:
        """Return how many pictures are ``done``, ``skipped`` or ``failed``."""
        return sum(result.status == status for result in self.results)

    def summary(self) -> dict[str, Any]:
        """Return what became of the batch, as plain data."""
        seconds, made = self.seconds, self.runner.scale**2
        pixels = sum(result.pixels for result in self.results if result.status == DONE) * made
        busy = self.runner.seconds - self._busy_before
        return {
            "files": len(self.plan.jobs),
            "done": self.count(DONE),
            "skipped": self.count(SKIPPED),
            "failed": self.count(FAILED),
            "ignored": self.plan.ignored,
            "seconds": round(seconds, 3),
            "megapixels": round(pixels / 1e6, 3),
            "engine": self.runner.compiled.engine,
            "engine_busy": round(busy / seconds, 4) if seconds else 0.0,
            "tiles_exact": not self.runner.approximate,
        }

    def _list_failures(self) -> None:
        """Write which pictures failed and why; nothing if none did."""
        path = self.plan.root / FAILED_FILE
        with suppress(OSError):
            path.unlink(missing_ok=True)  # also if it is a link, which would lead elsewhere
        failed = [result for result in self.results if result.status == FAILED]
        lines = (json.dumps({"source": str(r.source), "error": r.error}) for r in failed)
        if failed:
            with atomic_write(path) as file:
                file.write("".join(f"{line}\n" for line in lines).encode())


def _scale_of(network: nn.Module) -> int:
    """Return what a network enlarges by: as it says, or as it does."""
    spec = spec_of(network)
    if spec is not None:
        return spec.arguments["scale"]
    picture, training = torch.zeros(1, 3, 64, 64), network.training
    first = next((p for p in network.parameters()), None)
    if first is not None:
        picture = picture.to(first.device, first.dtype)
    try:
        with torch.inference_mode():
            made = network.eval()(picture)
    except Exception as error:
        reason = str(error).partition("\n")[0]
        raise NetworkError(
            f"restoring needs a network that takes RGB [B, 3, H, W], this {type(network).__name__} "
            f"does not: {reason}"
        ) from error
    finally:
        network.train(training)
    scale = made.shape[-1] // 64
    if tuple(made.shape) != (1, 3, 64 * scale, 64 * scale) or not scale:
        raise NetworkError(
            f"restoring needs a network that makes RGB of the same or a whole number of times the "
            f"size, this {type(network).__name__} makes {list(made.shape)} of {list(picture.shape)}"
        )
    return scale


def _samples_of(picture: Image.Image) -> Samples:
    """Return the samples of an 8-bit image; those of 16 bits if it is grey."""
    if picture.mode.startswith("I;16"):
        raise ImageError("an image of 16 bits needs to come as an array, got one of Pillow's")
    modes = {"1": "L", "L": "L", "LA": "LA", "RGB": "RGB", "RGBA": "RGBA", "PA": "RGBA"}
    mode = modes.get(picture.mode)
    if picture.mode == "P":
        mode = "RGBA" if "transparency" in picture.info else "RGB"
    if mode is None:
        raise ImageError(f"an image needs to be grey or RGB, got mode {picture.mode}")
    samples = np.asarray(picture.convert(mode))
    return samples[:, :, np.newaxis] if samples.ndim == 2 else samples


def _checked(array: NDArray[Any]) -> Samples:
    """Return an array as samples with channels, if it is a picture."""
    samples = array[:, :, np.newaxis] if array.ndim == 2 else array
    if samples.ndim != 3 or samples.shape[2] not in (1, 2, 3, 4) or 0 in samples.shape:
        raise ImageError(
            f"a picture needs the shape [H, W] or [H, W, 1 to 4], got {list(array.shape)}"
        )
    if samples.dtype not in (np.uint8, np.uint16):
        raise ImageError(f"a picture needs uint8 or uint16, got {array.dtype}")
    return samples
