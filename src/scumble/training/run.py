"""A training run: pretraining, pruning and fine-tuning are the same loop."""

import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, replace
from math import isfinite
from pathlib import Path

import torch
from torch import Tensor

from scumble.checkpoint import save
from scumble.data.loaders import Batch
from scumble.errors import BudgetError, CheckpointError, TrainingError
from scumble.files import atomic_write
from scumble.methods import Pruning, finalize
from scumble.recipe import Recipe
from scumble.run_folder import BEST, FINAL, RECIPE, STATE
from scumble.state_dicts import not_finite
from scumble.training.folder import RunFolder
from scumble.training.photos import Shelf
from scumble.training.prepare import Prepared, prepare
from scumble.training.schedule import learning_rate
from scumble.training.starts import note_start
from scumble.training.state import (
    Origin,
    Progress,
    read_state,
    restore_state,
    save_state,
    state_tensors,
)
from scumble.training.step import CapturedStep, TrainStep
from scumble.training.team import Team, gather_team

__all__ = ["BEST", "FINAL", "STATE", "Event", "TrainingRun"]


@dataclass(frozen=True)
class Event:
    """What a run tells about itself, every now and then."""

    step: int  # steps done
    steps: int  # steps in all
    loss: float  # mean since the last event, penalty included
    lr: float
    seconds: float  # since this process started to train
    kept: float | None = None  # share of the prunable MACs
    gmacs: float | None = None  # of the whole network, counted as the paper does
    pressure: float | None = None  # loss per MAC
    penalty: float | None = None  # what pruning adds to the loss now
    reached: bool | None = None  # the budget is met
    psnr: float | None = None  # of the validation, where there was one


class TrainingRun:
    """One recipe at work in one folder; a stopped run goes on where it was."""

    def __init__(
        self,
        recipe: Recipe,
        folder: Path,
        team: Team | None = None,
        device: str | None = None,
        shelf: Shelf | None = None,
    ) -> None:
        self.recipe, self.folder = recipe, folder
        self.team = team or gather_team(device)
        self.plain_recipe = recipe.model_dump(mode="json")
        self.stopping = False
        held = RunFolder(folder)
        if self.team.rank == 0:
            held.open()
        self.lock = held.lock
        try:
            state = read_state(folder / STATE, self.plain_recipe)
            self.prepared: Prepared = prepare(recipe, self.team, folder, shelf)
            teacher = self.step.teacher
            self.origin = Origin(
                self.plain_recipe, self.prepared.photos, teacher and teacher.digest
            )
            self.progress = Progress()
            if state is not None:
                self.progress = restore_state(folder / STATE, state, self.step, self.origin)
            if not self.team.same(f"{self.origin} {self.progress}"):
                raise TrainingError(
                    f"the processes of a run need the same recipe, photos, teacher and state, and "
                    f"these have others; give them folders that all of them see, also for {folder}"
                )
            self._write_what_is_known()
        except BaseException:
            if self.team.rank == 0:
                held.abandon()
            raise
        self.team.wait()

    @property
    def step(self) -> TrainStep:
        """Return the step that is repeated."""
        return self.prepared.step

    @property
    def done(self) -> bool:
        """Return whether all steps are done."""
        return self.progress.step >= self.recipe.train.steps

    def stop(self) -> None:
        """Ask the run to save its state and end after the step that it is at."""
        self.stopping = True

    def events(self) -> Iterator[Event]:
        """Train to the end, and tell about it every ``log_every`` steps."""
        with self.lock if self.team.rank == 0 else nullcontext():
            yield from self._train()

    def _train(self) -> Iterator[Event]:
        watch, steps = self.recipe.watch, self.recipe.train.steps
        start = time.perf_counter()
        total = torch.zeros((), device=self.team.device)
        since = self.progress.step
        stepper: TrainStep | CapturedStep | None = None
        batches = self.prepared.loader.batches(self.progress.step, steps)
        for batch in batches:
            stepper = stepper or self._stepper(batch)
            self._set_rate(learning_rate(self.recipe.train, self.progress.step))
            total += stepper(*batch)
            done = self.progress.step + 1
            self.progress = replace(self.progress, step=done)
            # Asked during this step; a later wish is heard at the next, by all processes together.
            stopping = self.team.any(self.stopping)
            last = done == steps or stopping
            save, validate = last or done % watch.save_every == 0, done % watch.validate_every == 0
            if save or validate or done % watch.log_every == 0:
                loss = self._finite(total / (done - since), since)
                if save or validate:
                    self._refuse_broken(since)
                psnr = self._validate() if validate or done == steps else None
                event = self._event(loss, psnr, time.perf_counter() - start)
                self._log(event)
                total.zero_()
                since = done
                if save:
                    self._save_state()
                yield event
            if stopping:
                return
        self._finish()

    def _stepper(self, batch: Batch) -> TrainStep | CapturedStep:
        """Return the fastest form of the step that this device has."""
        if self.team.device.type != "cuda" or not self.recipe.train.fast or self.team.size > 1:
            return self.step
        self.step.compile_()
        return CapturedStep(self.step, *batch)

    def _set_rate(self, rate: float) -> None:
        for group in self.step.optimizer.param_groups:
            if isinstance(group["lr"], Tensor):
                group["lr"].fill_(rate * group["times"])
            else:
                group["lr"] = rate * group["times"]

    def _finite(self, loss: Tensor, since: int) -> float:
        value = loss.item()
        if not isfinite(value):
            raise self._diverged(f"the loss became {value}", since)
        return value

    def _refuse_broken(self, since: int) -> None:
        """Refuse to keep a network that a last gradient has spoiled, though its loss was fine."""
        broken = not_finite(state_tensors(self.step)) if self.team.rank == 0 else None
        if broken is not None:
            raise self._diverged(f"{broken} came to hold infinities or no numbers", since)

    def _diverged(self, what: str, since: int) -> TrainingError:
        where = self.folder / STATE
        kept = f"{where} is from before it" if where.exists() else "nothing was saved before it"
        return TrainingError(
            f"{what} between steps {since + 1} and {self.progress.step}; "
            f"{kept}; train with a lower lr, or with clip"
        )

    def _validate(self) -> float | None:
        """Return the validation's PSNR, and keep the network if it is the best so far."""
        if self.team.rank != 0 or not self.prepared.validation:
            return None
        network = self.prepared.averaged()
        psnr = self.prepared.score(network)
        best = self.progress.best
        met = self.step.pruning is None or self.step.pruning.reached
        if met and psnr is not None and (best is None or psnr > best):
            self.progress = replace(self.progress, best=psnr)
            self._save_network(self.folder / BEST, psnr)
        return psnr

    def _finish(self) -> None:
        if self.team.rank != 0:
            return
        pruning = self.step.pruning
        if pruning is not None and not pruning.reached:
            raise BudgetError(
                f"after {self.progress.step} steps {pruning.kept:.4f} of the prunable MACs are "
                f"kept, {pruning.target:.4f} may be; train again in another folder: longer, "
                f"or with more prune.pressure or prune.growth, or a smaller prune.look_every"
            )
        psnr = self.prepared.score(self.prepared.averaged()) if self.prepared.validation else None
        self._save_network(self.folder / FINAL, psnr)

    def _save_network(self, path: Path, psnr: float | None) -> None:
        network = self.prepared.averaged()
        if isinstance(getattr(network, "pruning", None), Pruning):
            network = finalize(network)
        results = {self.prepared.protocol.name: {"validation": psnr}} if psnr is not None else None
        with self._saving():
            save(
                network,
                path,
                recipe=self.plain_recipe,
                data=self.recipe.data.photos,
                results=results,
            )

    def _save_state(self) -> None:
        if self.team.rank == 0:
            with self._saving():
                save_state(self.folder / STATE, self.step, self.progress, self.origin)
        self.team.wait()

    @contextmanager
    def _saving(self) -> Iterator[None]:
        """Say what is left when something cannot be saved."""
        try:
            yield
        except CheckpointError as error:
            state = self.folder / STATE
            whole = f"{state} is whole, and the same command goes on from there"
            left = whole if state.exists() else "nothing was saved before"
            raise TrainingError(f"{error}; {left}") from error

    def _event(self, loss: float, psnr: float | None, seconds: float) -> Event:
        train = self.recipe.train
        rate = learning_rate(train, self.progress.step - 1)
        event = Event(self.progress.step, train.steps, loss, rate, round(seconds, 3), psnr=psnr)
        pruning = self.step.pruning
        if pruning is None:
            return event
        pressure = getattr(pruning, "pressure", None)
        return replace(
            event,
            kept=pruning.kept,
            gmacs=round(self.prepared.gmacs(pruning.kept), 4),
            reached=pruning.reached,
            pressure=None if pressure is None else pressure.weight,
            penalty=self._penalty(pruning),
        )

    @torch.no_grad()
    def _penalty(self, pruning: Pruning) -> float:
        return pruning.penalty().item()

    def _log(self, event: Event) -> None:
        if self.team.rank == 0:
            self.prepared.log.write(asdict(event))

    def _write_what_is_known(self) -> None:
        """Write the recipe, and cut the log to the steps that are done."""
        if self.team.rank != 0:
            return
        try:
            with atomic_write(self.folder / RECIPE) as file:
                file.write(self.recipe.to_yaml().encode())
            note_start(self.folder, self.progress.step, str(self.team.device))
        except OSError as error:
            raise TrainingError(f"{self.folder} cannot hold a run: {error.strerror}") from error
        self.prepared.log.cut(self.progress.step)
