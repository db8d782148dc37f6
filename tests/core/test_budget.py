import pytest
from hypothesis import given
from hypothesis import strategies as st

from scumble.core.budget import Budget, Pressure, PressureSchedule, land
from scumble.errors import BudgetError


@pytest.mark.parametrize("written", ["1/8", "12.5%", 0.125, "0.125", Budget(share=0.125)])
def test_a_share_is_written_in_many_ways(written):
    assert Budget.parse(written) == Budget(share=0.125)
    assert str(Budget.parse(written)) == "1/8"


def test_more_than_one_is_macs_of_the_whole_network():
    budget = Budget.parse("13.02e9")
    assert budget == Budget(macs=13.02e9)
    assert budget.target(prunable=90e9, rest=2e9) == 11.02e9
    assert Budget.parse("1/8").target(prunable=80e9, rest=2e9) == 10e9
    assert str(budget) == "13.02 GMACs"


@pytest.mark.parametrize("written", ["", "-1", 0, "40ms", "nan", "inf"])
def test_other_budgets_are_refused(written):
    with pytest.raises(BudgetError, match=r'a budget is a share such as "1/8", "12.5%" or 0.125'):
        Budget.parse(written)


@pytest.mark.parametrize("written", ["1/0", "0/8", "9/8", "2/1", "200%", "0%"])
def test_a_share_of_nothing_or_of_more_than_all_is_refused_as_a_share(written):
    with pytest.raises(BudgetError, match=f"a share is above 0 and at most 1, got '{written}'"):
        Budget.parse(written)


def test_pressure_grows_when_pruning_stalls():
    schedule = PressureSchedule(growth=1.1, min_progress=0.2)
    # dense/kept goes from 1 to 1.25: not stalled; then to 1.33: stalled.
    first = schedule.step(Pressure(1.0), kept=0.8)
    assert first == Pressure(1.0, 0.8)
    assert schedule.step(first, kept=0.75) == Pressure(1.1, 0.75)


def test_progress_exactly_at_the_threshold_is_stalled():
    schedule = PressureSchedule(growth=2, min_progress=0.25, progress="share")
    assert schedule.step(Pressure(1.0), kept=0.75).weight == 2


def test_the_paper_measures_progress_as_a_share():
    schedule = PressureSchedule(min_progress=0.1, progress="share")
    assert schedule.step(Pressure(1.0), kept=0.85).weight == 1.0
    assert schedule.step(Pressure(1.0), kept=0.95).weight == pytest.approx(1.1)


def test_landing_reopens_the_rank_that_was_least_sure():
    kept = land(
        kept=[1, 1],
        priorities=[[1, 0.1, 0.0], [1, 0.4, 0.3]],
        macs_per_rank=[[10, 10, 10], [10, 10, 10]],
        target=39,
    )
    assert kept == [1, 2]


def test_landing_takes_a_smaller_rank_where_the_better_one_does_not_fit():
    assert land([1, 1], [[1, 0.4], [1, 0.1]], [[10, 10], [3, 3]], target=20) == [1, 2]


layers = st.lists(
    st.tuples(
        st.integers(1, 4), st.lists(st.floats(0, 1), min_size=4, max_size=4), st.integers(1, 50)
    ),
    min_size=1,
    max_size=6,
)


@given(layers, st.integers(0, 400))
def test_landing_never_exceeds_the_target_and_leaves_no_room(layers, spare):
    kept, priorities = [n for n, _, _ in layers], [p for _, p, _ in layers]
    ranks = [[cost] * 4 for _, _, cost in layers]
    target = spare + sum(n * cost for n, _, cost in layers)
    landed = land(kept, priorities, ranks, target)
    cost = sum(n * macs[0] for n, macs in zip(landed, ranks, strict=True))
    assert cost <= target
    assert all(before <= after <= 4 for before, after in zip(kept, landed, strict=True))
    open_layers = [macs[0] for n, macs in zip(landed, ranks, strict=True) if n < 4]
    assert all(cost + more > target for more in open_layers)


@pytest.mark.parametrize("given", [0.125, 1 / 3, 0.0004, 0.1234567, 13.02e9, 1.0])
def test_a_budget_reads_back_from_plain_data(given):
    budget = Budget.parse(given)
    assert Budget.parse(budget.plain) == budget
    assert str(budget) != "0"


@pytest.mark.parametrize("parts", [{}, {"share": 5}, {"macs": 0.5}, {"share": 0.5, "macs": 1e9}])
def test_impossible_budgets_cannot_be_made(parts):
    with pytest.raises(BudgetError, match="a budget"):
        Budget(**parts)
    with pytest.raises(BudgetError, match="a budget"):
        Budget.parse(True)
