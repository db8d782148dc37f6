from hypothesis import given
from hypothesis import strategies as st

from scumble.core.ties import FIXED, Ties

pairs = st.lists(st.tuples(st.integers(1, 12), st.integers(1, 12)), max_size=20)


@given(pairs)
def test_who_can_be_reached_is_tied_and_nobody_else(given_pairs):
    ties = Ties()
    ties.new(12)
    reached = {n: {n} for n in range(1, 13)}
    for one, other in given_pairs:
        ties.tie([one], [other])
        union = reached[one] | reached[other]
        for n in union:
            reached[n] = union
    for n in range(1, 13):
        assert {o for o in range(1, 13) if ties.of(o) == ties.of(n)} == reached[n]
        assert ties.of(n) == min(reached[n])


def test_what_is_tied_to_something_fixed_is_fixed():
    ties = Ties()
    first = ties.new(2)
    second = ties.new(2)
    ties.tie(first, second)
    ties.fix(second[:1])
    assert [ties.of(n) for n in (*first, *second)] == [FIXED, 2, FIXED, 2]
