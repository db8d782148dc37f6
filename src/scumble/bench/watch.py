"""How busy a machine is with the work of others."""

import time
from pathlib import Path


class Watch:
    """Sleeps, and looks how busy the machine is meanwhile: with the work of others, then."""

    def __init__(self) -> None:
        self._busy = self._all = 0

    def sleep(self, seconds: float) -> None:
        """Sleep; look at the second half, when whoever ran before has calmed down."""
        time.sleep(seconds / 2)
        busy, total = _ticks()
        time.sleep(seconds / 2)
        after_busy, after_total = _ticks()
        self._busy += after_busy - busy
        self._all += after_total - total

    @property
    def busy(self) -> float | None:
        """Return the share of the machine that was at work; None where nobody counts."""
        return self._busy / self._all if self._all else None


def _ticks() -> tuple[int, int]:
    """Return for how long the cores have worked, and for how long in all."""
    counted = Path("/proc/stat")
    if not counted.exists():
        return 0, 0
    # user, nice, system, idle, waiting, interrupts, ..., stolen; guests are in user already
    ticks = [int(word) for word in counted.read_text().partition("\n")[0].split()[1:9]]
    return sum(ticks) - ticks[3] - ticks[4], sum(ticks)
