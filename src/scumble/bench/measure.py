"""Times taken in turns, and what they come to.

Each contestant waits while another one runs, and whole rounds follow each other: what slows the
machine down for a while slows down all of them, so that ratios within a round are to be trusted
where times are not.
"""

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

LONG_ENOUGH = 0.2  # seconds of one turn
WARM = 0.3  # seconds, and at least two runs
PAUSE = 0.1  # seconds between two contestants: threads that wait busily calm down


class Runner(Protocol):
    """Whoever runs a network so many times."""

    def run(self, iterations: int) -> float:
        """Return the seconds that all the runs took."""
        ...


@dataclass(frozen=True)
class Spread:
    """The middle of some figures and the quartiles around it."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> "Spread":
        """Return the spread of at least one figure.

        >>> Spread.of([1, 2, 3, 4, 50])
        Spread(median=3.0, low=2.0, high=4.0)
        """
        if len(values) == 1:
            return cls(*[float(values[0])] * 3)
        low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
        return cls(middle, low, high)

    def to_json(self) -> dict[str, object]:
        """Return the figures with four digits."""
        low, middle, high = (float(f"{v:.4g}") for v in (self.low, self.median, self.high))
        return {"median": middle, "quartiles": [low, high]}


def warm_up(runner: Runner) -> float:
    """Run until all is in place; return the seconds of one run."""
    runner.run(1)
    once = max(runner.run(1), 1e-9)
    missing = int((WARM - once) / once)
    return runner.run(missing) / missing if missing > 0 else once


def turns_of(seconds: float) -> int:
    """Return how many runs make one turn long enough."""
    return max(1, round(LONG_ENOUGH / max(seconds, 1e-9)))


def take_turns(
    runners: Sequence[Runner],
    iterations: Sequence[int],
    rounds: int,
    told: Callable[[], None] = lambda: None,
    sleep: Callable[[float], None] = time.sleep,
) -> list[list[float]]:
    """Return the seconds of one run of each runner, one figure for every round."""
    times: list[list[float]] = [[] for _ in runners]
    for _ in range(rounds):
        for runner, count, found in zip(runners, iterations, times, strict=True):
            sleep(PAUSE)
            found.append(runner.run(count) / count)
            told()
    return times


def ratio(times: Sequence[float], others: Sequence[float]) -> Spread:
    """Return how many times as fast as others somebody was, round by round."""
    return Spread.of([other / own for own, other in zip(times, others, strict=True)])
