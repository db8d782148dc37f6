import pytest
from hypothesis import given

from scumble.core.pattern import Pattern
from scumble.errors import PatternError
from tests.core.strategies import patterns


@given(patterns())
def test_a_pattern_reads_back_what_it_writes(pattern):
    assert Pattern.parse(str(pattern)) == pattern


def test_n_is_what_is_kept():
    assert Pattern.parse("8:32").density == 0.25
    assert Pattern(4, 4).density == 1


@pytest.mark.parametrize("text", ["8", "8:", ":32", "8/32", "-1:4", "2.0:4", "", "1:2:3"])
def test_other_spellings_are_refused(text):
    with pytest.raises(PatternError, match=r"a pattern is written N:M, such as 8:32, got"):
        Pattern.parse(text)


@pytest.mark.parametrize("text", ["0:32", "33:32"])
def test_impossible_counts_are_refused(text):
    with pytest.raises(PatternError, match=f"keeps 1 to 32 of 32 weights, got {text}"):
        Pattern.parse(text)


def test_slots_fit_one_byte():
    assert Pattern(1, 256).m == 256
    with pytest.raises(PatternError, match="a group has 1 to 256 weights, got 257"):
        Pattern(1, 257)
