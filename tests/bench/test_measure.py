import pytest

from scumble.bench.measure import PAUSE, Spread, ratio, take_turns, turns_of, warm_up


class Fake:
    """Runs in no time, and says how long it took."""

    def __init__(self, name: str, seconds: list[float], diary: list[object]) -> None:
        self.name = name
        self.seconds = seconds
        self.diary = diary

    def run(self, iterations: int) -> float:
        self.diary.append((self.name, iterations))
        once = self.seconds.pop(0) if len(self.seconds) > 1 else self.seconds[0]
        return once * iterations


def test_contestants_take_turns_with_a_pause_before_each():
    diary: list[object] = []
    runners = [Fake("a", [1.0, 2.0], diary), Fake("b", [5.0, 7.0], diary)]
    times = take_turns(runners, [1, 3], rounds=2, sleep=diary.append)
    assert diary == [PAUSE, ("a", 1), PAUSE, ("b", 3), PAUSE, ("a", 1), PAUSE, ("b", 3)]
    assert times == [[1.0, 2.0], [5.0, 7.0]]


def test_every_turn_is_told():
    told: list[int] = []
    take_turns([Fake("a", [1.0], [])], [1], 3, told=lambda: told.append(1), sleep=lambda _: None)
    assert len(told) == 3


def test_ratios_are_taken_round_by_round():
    # The machine slowed down for both in the second round: the ratio does not see it.
    assert ratio([1.0, 10.0, 1.0], [3.0, 30.0, 3.0]) == Spread(3.0, 3.0, 3.0)
    assert ratio([2.0], [1.0]).median == 0.5


@pytest.mark.parametrize(
    ("values", "median", "low", "high"),
    [([7], 7, 7, 7), ([1, 3], 2, 1.5, 2.5), ([5, 1, 4, 2, 3], 3, 2, 4)],
)
def test_a_spread_is_the_median_and_the_quartiles(values, median, low, high):
    assert Spread.of(values) == Spread(median, low, high)


def test_figures_are_written_with_four_digits():
    told = Spread(123.456, 0.00012345, 1e6).to_json()
    assert told == {"median": 123.5, "quartiles": [0.0001234, 1e6]}


def test_a_short_run_is_repeated_until_it_is_warm_and_a_long_one_is_not():
    diary: list[object] = []
    assert warm_up(Fake("short", [0.5, 0.1], diary)) == pytest.approx(0.1)
    assert diary == [("short", 1), ("short", 1), ("short", 1)]
    diary.clear()
    assert warm_up(Fake("long", [9.0, 2.0], diary)) == 2.0
    assert diary == [("long", 1), ("long", 1)]


@pytest.mark.parametrize(("seconds", "count"), [(3.0, 1), (0.2, 1), (0.05, 4), (0.001, 200)])
def test_a_turn_is_long_enough(seconds, count):
    assert turns_of(seconds) == count
