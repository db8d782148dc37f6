"""Work on the cells of a comparison, beside whoever else does."""

import gc
import os
import traceback
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import torch

from scumble.compare.cell_folder import CellFolder, folders_of
from scumble.compare.cells import Plan
from scumble.compare.claims import Claim, ClaimLostError, take
from scumble.compare.standing import write
from scumble.comparison import Comparison
from scumble.devices import pick_device
from scumble.errors import ComparisonError, ScumbleError
from scumble.evaluate import evaluate
from scumble.metrics.protocols import PROTOCOLS
from scumble.training.photos import Shelf
from scumble.training.run import Event, TrainingRun


class StoppedError(Exception):
    """Somebody asked to stop."""


@dataclass(frozen=True)
class Told:
    """What a comparison tells about itself while it works."""

    cell: str
    doing: str  # training, scoring on Set14, done, failed: ...
    now: int = 0  # steps or pictures
    of: int = 0
    event: Event | None = None  # of the training


@dataclass
class Work:
    """One process at work on a comparison's folder."""

    plan: Plan
    root: Path
    device: str | None = None
    told: Callable[[Told], None] = lambda _: None
    stopping: bool = False
    tried: set[str] = field(default_factory=set)  # cells that this process has worked on
    run: TrainingRun | None = field(default=None, repr=False)
    shelf: Shelf = field(default_factory=Shelf, repr=False)  # photos, decoded once for many cells

    def __post_init__(self) -> None:
        _refuse_teams()
        if not self.plan.score:
            raise ComparisonError(
                "compare needs pictures to score on, got none; give --data FOLDER, or name "
                "folders under score in the grid"
            )
        for entry in self.plan.score:
            if entry.protocol is not None:
                PROTOCOLS[entry.protocol]
        pick_device(self.device)

    def stop(self) -> None:
        """Ask to save and end what is being done; the same command goes on from there."""
        self.stopping = True
        if self.run is not None:
            self.run.stop()

    def all(self) -> Comparison:
        """Do every cell that nobody else does, and return the table as it is then."""
        try:
            self.root.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ComparisonError(
                f"{self.root} cannot hold a comparison: {error.strerror}"
            ) from error
        folders = folders_of(self.plan, self.root)
        failures = {folder.cell.name: folder.failure() for folder in folders}
        # Again and again until nothing was left: the cells of others may come free meanwhile, and
        # what some have waited for may be there.
        while any(self._try(folder, failures[folder.cell.name]) for folder in folders):
            folders = folders_of(self.plan, self.root)
        return write(self.plan, self.root)

    def _try(self, folder: CellFolder, before: dict[str, str] | None) -> bool:
        """Do a cell if it is to be done; return whether it was tried.

        What failed before this process began is tried again, what failed elsewhere since is not.
        """
        cell = folder.cell
        if self.stopping or cell.refusal is not None or cell.name in self.tried:
            return False
        if folder.failure() not in (None, before) or folder.finished or folder.waits_for:
            return False
        claim = take(folder.path)
        if claim is None:
            return False
        with claim:
            if folder.finished or folder.failure() not in (None, before):
                return False  # by somebody who let go of it just now
            self.tried.add(cell.name)
            self._do(folder, claim)
        _clean_up(self.device)
        write(self.plan, self.root)
        return True

    def _do(self, folder: CellFolder, claim: Claim) -> None:
        """Train and score one cell; what fails is written down, and does not stop the rest."""
        name = folder.cell.name
        folder.keep_failure(None)
        try:
            self._train(folder, claim)
            self._score(folder, claim)
        except (StoppedError, ClaimLostError):
            return
        except Exception as error:
            reason = str(error)
            if not isinstance(error, ScumbleError):
                reason = f"{type(error).__name__}: {reason}"
            known = {"id": uuid.uuid4().hex, "date": datetime.now(UTC).isoformat()}
            told = traceback.format_exc()
            folder.keep_failure({**known, "reason": reason, "traceback": told})
            self.told(Told(name, f"failed: {reason}"))
        else:
            self.told(Told(name, "done"))

    def _train(self, folder: CellFolder, claim: Claim) -> None:
        cell, recipe = folder.cell, folder.cell.recipe
        if folder.trained or recipe is None:
            return
        self.told(Told(cell.name, "training", 0, recipe.train.steps))
        self.run = run = TrainingRun(recipe, folder.path, device=self.device, shelf=self.shelf)
        try:
            if self.stopping:
                raise StoppedError
            for event in run.events():
                claim.check()
                self.told(Told(cell.name, "training", event.step, event.steps, event))
            if not run.done:
                raise StoppedError
        finally:
            self.run = None
            run.lock.release()

    def _score(self, folder: CellFolder, claim: Claim) -> None:
        folder.check_network()
        for entry in folder.unscored:

            def told(now: int, of: int, label: str = entry.label) -> None:
                claim.check()
                if self.stopping:
                    raise StoppedError
                self.told(Told(folder.cell.name, f"scoring on {label}", now, of))

            report = evaluate(
                folder.network, entry.data, entry.protocol, device=self.device, told=told
            )
            folder.keep_scores(entry, report.to_json())


def _refuse_teams() -> None:
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise ComparisonError(
            "compare trains every cell in one process; instead of torchrun, start it once for each "
            "GPU (CUDA_VISIBLE_DEVICES=0, =1, ...) on the same folder"
        )


def _clean_up(device: str | None) -> None:
    """Give back what a cell used; compiled steps would pile up to torch's limit of eight."""
    on_gpu = pick_device(device).type == "cuda"
    if on_gpu:
        torch.compiler.reset()
    gc.collect()
    if on_gpu:
        torch.cuda.empty_cache()
