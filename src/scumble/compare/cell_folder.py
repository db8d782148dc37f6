"""The folder of one cell: what is done there, and what it says."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import scumble.zoo
from scumble.checkpoint import read_info
from scumble.compare.cells import Cell, Plan
from scumble.compare.claims import holder_of
from scumble.compare.grid import ScoreEntry
from scumble.comparison import CellResult, State
from scumble.errors import CheckpointError, ComparisonError, ScumbleError
from scumble.files import atomic_write
from scumble.recipe import in_full
from scumble.run_folder import BEST, FINAL, STATE, read_log, read_starts

CELLS, SCORES, FAILURE = "cells", "scores", "failure.json"


@dataclass(frozen=True)
class CellFolder:
    """A cell, and the folder where it is worked on."""

    cell: Cell
    root: Path  # of the comparison
    score: tuple[ScoreEntry, ...]
    best: bool = False
    waits_for: str | None = None  # a cell that needs to be trained before

    @property
    def path(self) -> Path:
        """Return the folder, which is that of the cell's training run, too."""
        return self.root / CELLS / self.cell.name

    @property
    def network(self) -> str:
        """Return what is scored: a file, or a network of the zoo."""
        if self.cell.start is not None:
            return self.cell.start
        return str(self.path / (BEST if self.best else FINAL))

    @property
    def trained(self) -> bool:
        """Return whether the run is at its end; a network by another recipe is refused."""
        if self.cell.recipe is None or self.waits_for is not None:
            return self.waits_for is None
        file = self.path / FINAL
        if not file.exists():
            return False
        made_by = read_info(file).recipe
        if made_by is None or in_full(dict(made_by)) != self.cell.recipe.model_dump(mode="json"):
            raise ComparisonError(
                f"{file} was made by another recipe; give another folder, or the same recipe"
            )
        return True

    @property
    def unscored(self) -> list[ScoreEntry]:
        """Return the sets of pictures that this network was not scored on yet."""
        return [entry for entry in self.score if self.scores_on(entry) is None]

    @property
    def done(self) -> bool:
        """Return whether nothing is left to do."""
        return self.trained and not self.unscored

    @property
    def finished(self) -> bool:
        """Return whether nothing is left to do; what cannot be said is not."""
        try:
            return self.done
        except ScumbleError:
            return False

    def check_network(self) -> None:
        """Refuse to score the best network of a run that has kept none."""
        if self.best and self.cell.recipe is not None and not Path(self.network).exists():
            raise ComparisonError(
                f"{self.path} has no best network by validation; validate more often, on some "
                f"photos (watch.validate_every, data.validation), or leave out best"
            )

    def scores_on(self, entry: ScoreEntry) -> dict[str, Any] | None:
        """Return the report on a set of pictures, if it is about this network and these pictures.

        Where the pictures cannot be seen, the report is believed.
        """
        try:
            found = json.loads(self._scores_file(entry).read_text())
            fits = found["network"] == _digest(self.network)
            fits = fits and entry.protocol in (None, found["report"]["protocol"])
            seen = pictures_digest(entry)
            return found["report"] if fits and seen in (None, found["pictures"]) else None
        except (OSError, ValueError, KeyError, TypeError, CheckpointError):
            return None

    def keep_scores(self, entry: ScoreEntry, report: Mapping[str, Any]) -> None:
        """Write the report on a set of pictures."""
        about = {"network": _digest(self.network), "pictures": pictures_digest(entry)}
        self._write(self._scores_file(entry), {**about, "report": report})

    def failure(self) -> dict[str, str] | None:
        """Return why the cell failed when it was last tried."""
        try:
            found = json.loads((self.path / FAILURE).read_text())
        except (OSError, ValueError):
            return None
        return found if isinstance(found, dict) and "reason" in found else None

    def keep_failure(self, failure: Mapping[str, str] | None) -> None:
        """Write why the cell failed; None forgets it."""
        if failure is None:
            (self.path / FAILURE).unlink(missing_ok=True)
        else:
            self._write(self.path / FAILURE, failure)

    def result(self) -> CellResult:
        """Return everything that is known of the cell now."""
        reports = {entry.label: self.scores_on(entry) for entry in self.score}
        scored = {label: report for label, report in reports.items() if report is not None}
        state, told = self._state()
        cost = next((report.get("cost") for report in scored.values()), None) or {}
        return CellResult(
            name=self.cell.name,
            place=self.cell.place,
            state=state,
            told=told,
            folder=None if self.cell.recipe is None else f"{CELLS}/{self.cell.name}",
            file=self._file(),
            macs=cost.get("macs", {}),
            parameters=cost.get("parameters"),
            scores={label: report["mean"] for label, report in scored.items()},
            pictures={label: _psnrs(report) for label, report in scored.items()},
            warnings=tuple(w for label, r in scored.items() for w in _warnings(label, r)),
            seconds=training_seconds(self.path),
            starts=tuple(read_starts(self.path)),
        )

    def _state(self) -> tuple[State, str]:
        """Return how far the cell is, and a word on it."""
        if self.cell.refusal is not None:
            return "failed", self.cell.refusal
        holder = holder_of(self.path)
        if holder is not None:
            return "working", f"{holder.host}, process {holder.process}"
        try:
            if self.done:
                return "done", ""
        except ScumbleError as error:
            return "failed", str(error)
        failure = self.failure()
        if failure is not None:
            return "failed", failure["reason"]
        if (self.path / STATE).exists() or (self.path / FINAL).exists():
            return "stopped", self._progress()
        return "waiting", f"for {self.waits_for}" if self.waits_for else ""

    def _progress(self) -> str:
        steps = self.steps_done()
        total = self.cell.recipe.train.steps if self.cell.recipe else 0
        return "trained, not scored" if steps >= total else f"after step {steps} of {total}"

    @property
    def last_pressure(self) -> float | None:
        """Return the pressure at the end of the training; None before."""
        try:
            return read_log(self.path)[-1]["pressure"] if self.trained else None
        except (OSError, LookupError, ScumbleError):
            return None

    def steps_done(self) -> int:
        """Return how many steps the run's log tells of."""
        try:
            return max((event["step"] for event in read_log(self.path)), default=0)
        except OSError:
            return 0

    def _file(self) -> str:
        """Return the network as a reader of the comparison finds it."""
        if self.cell.start is not None:
            return self.cell.start
        return f"{CELLS}/{self.cell.name}/{Path(self.network).name}"

    def _scores_file(self, entry: ScoreEntry) -> Path:
        # A name that people give to pictures need not be one for a file.
        short = hashlib.sha256(entry.label.encode()).hexdigest()[:8]
        plain = "".join(c for c in entry.label if c.isalnum())[:40]
        return self.path / SCORES / f"{plain}-{short}.json"

    def _write(self, path: Path, content: Mapping[str, Any]) -> None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with atomic_write(path) as file:
                file.write((json.dumps(content, indent=1) + "\n").encode())
        except OSError as error:
            raise ComparisonError(f"{path} cannot be written: {error.strerror}") from error


def folders_of(plan: Plan, root: Path) -> list[CellFolder]:
    """Return the cells of a comparison in the order of its table, as far as they are known."""
    folders = {cell.name: CellFolder(cell, root, plan.score, plan.best) for cell in plan.cells}
    return [_with_pressure(folder, folders) for folder in folders.values()]


def _with_pressure(folder: CellFolder, folders: Mapping[str, CellFolder]) -> CellFolder:
    """Return a folder whose cell begins with the last pressure of another, once that is trained."""
    name, recipe = folder.cell.pressure_of, folder.cell.recipe
    if name is None or recipe is None or recipe.prune is None:
        return folder
    pressure = folders[name].last_pressure
    if pressure is None:
        return replace(folder, waits_for=name)
    prune = recipe.prune.model_copy(update={"pressure": pressure})
    recipe = recipe.model_copy(update={"prune": prune})
    return replace(folder, cell=replace(folder.cell, recipe=recipe))


def pictures_digest(entry: ScoreEntry) -> str | None:
    """Return what changes when a picture comes, goes or changes; None if they cannot be seen."""
    folder = Path(entry.data)
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    told = [(path.relative_to(folder).as_posix(), path.stat().st_size) for path in files]
    return hashlib.sha256(json.dumps(told).encode()).hexdigest() if told else None


def training_seconds(folder: Path) -> float | None:
    """Return how long a run has trained, over all of its starts; what a kill undid not counted."""
    try:
        told = [event["seconds"] for event in read_log(folder)]
    except (OSError, KeyError, TypeError):
        return None
    if not told:
        return None
    before = [0.0, *told[:-1]]
    return sum(now - last if now >= last else now for last, now in zip(before, told, strict=True))


def _digest(network: str) -> str:
    """Return the hash of a network's file."""
    known = network in scumble.zoo.names()
    path = scumble.zoo.find(network) if known else Path(network)
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise CheckpointError(f"{network} cannot be read: {error.strerror}") from error


def _psnrs(report: Mapping[str, Any]) -> dict[str, float | None]:
    """Return the PSNR of every picture; None for one that was restored exactly."""
    found = {name: scores.get("psnr") for name, scores in report["pictures"].items()}
    return {name: psnr if psnr is None else round(psnr, 4) for name, psnr in found.items()}


def _warnings(label: str, report: Mapping[str, Any]) -> list[str]:
    """Return which pictures have no score, and why."""
    left_out = {**report.get("failed", {}), **report.get("skipped", {})}
    return [f"{label}: {reason}" for reason in left_out.values()]
