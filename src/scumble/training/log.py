"""What a run writes down while it goes on: one JSON object per line, and TensorBoard on request."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from scumble.errors import TrainingError
from scumble.files import atomic_write
from scumble.run_folder import LOG, read_log


class Log:
    """The log of one run's folder."""

    def __init__(self, folder: Path, tensorboard: bool = False) -> None:
        self.path = folder / LOG
        self._writer: Any = _board_writer() if tensorboard else None
        self._board_folder = folder / "tensorboard"
        self._board: Any = None  # opened with the first event: a run may yet fail to start

    def write(self, event: Mapping[str, Any]) -> None:
        """Add one event."""
        try:
            with self.path.open("a") as file:
                file.write(json.dumps(event) + "\n")
        except OSError as error:
            raise TrainingError(f"{self.path} could not be written: {error.strerror}") from error
        if self._writer is not None:
            self._show(event)

    def _show(self, event: Mapping[str, Any]) -> None:
        """Add one event to the board, in place of what a killed run wrote from there on."""
        step = event["step"]
        if self._board is None:
            self._board = self._writer(str(self._board_folder), purge_step=step)
        for name, value in event.items():
            if isinstance(value, int | float) and name != "step":
                self._board.add_scalar(name, value, step)
        self._board.flush()

    def cut(self, step: int) -> None:
        """Drop what was written after ``step``: a run that was killed repeats it."""
        if not self.path.exists():
            return
        try:
            kept = [event for event in self.read() if event["step"] <= step]
            with atomic_write(self.path) as file:
                file.write("".join(json.dumps(event) + "\n" for event in kept).encode())
        except OSError as error:
            raise TrainingError(f"{self.path} could not be written: {error.strerror}") from error

    def read(self) -> list[dict[str, Any]]:
        """Return all events; a last line that was cut short by a kill is left out."""
        return read_log(self.path.parent)


def _board_writer() -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise TrainingError(
            "watch.tensorboard needs tensorboard; pip install 'scumble[train]'"
        ) from error
    return SummaryWriter
