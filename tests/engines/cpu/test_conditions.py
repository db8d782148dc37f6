"""Conditions on sizes: arithmetic as Python's, and nothing else."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scumble.engines.cpu.conditions import broken
from scumble.errors import EngineError

NUMBERS = st.sampled_from(["height", "width", "0", "1", "2", "7", "0.5"])


def grown(inner):
    two = st.tuples(inner, st.sampled_from(["+", "-", "*", "//", "%", "/"]), inner)
    calls = st.tuples(st.sampled_from(["min", "max"]), inner, inner)
    rounded = st.tuples(st.sampled_from(["math.ceil", "math.floor", "math.trunc", "abs"]), inner)
    return st.one_of(
        two.map(lambda parts: f"({' '.join(parts)})"),
        calls.map(lambda parts: f"{parts[0]}({parts[1]}, {parts[2]})"),
        rounded.map(lambda parts: f"{parts[0]}({parts[1]})"),
        inner.map(lambda one: f"-{one}"),
        inner.map(lambda one: f"({one})**2"),
    )


SUMS = st.recursive(NUMBERS, grown, max_leaves=6)
COMPARISONS = st.tuples(SUMS, st.sampled_from(["==", "!=", "<", "<=", ">", ">="]), SUMS).map(
    " ".join
)
CONDITIONS = st.one_of(
    COMPARISONS,
    st.tuples(COMPARISONS, st.sampled_from(["and", "or"]), COMPARISONS).map(" ".join),
    COMPARISONS.map(lambda one: f"not {one}"),
    st.tuples(SUMS, SUMS, SUMS).map(" <= ".join),
)
SIDES = st.integers(1, 100)


@given(CONDITIONS, SIDES, SIDES)
def test_a_condition_means_what_python_says(condition, height, width):
    names = {"math": math, "height": height, "width": width}
    try:
        met = bool(eval(condition, names))
    except ArithmeticError:
        met = False
    assert broken([condition], height, width) == (None if met else condition)


def test_the_first_condition_that_is_not_met_is_named():
    conditions = ["height >= 1", "width % 2 == 0", "height == width"]
    assert broken(conditions, 4, 4) is None
    assert broken(conditions, 4, 6) == "height == width"
    assert broken(conditions, 4, 5) == "width % 2 == 0"


@pytest.mark.parametrize(
    "condition",
    [
        "depth == 1",
        "__import__('os')",
        "height.real == 1",
        "(lambda: height)() == 1",
        "open(height)",
        "min(height, key=width)",
        "math.factorial(height)",
        "9**9**9",
        "height**width",
        "height << 3",
        "[height]",
        "'text'",
        "height is width",
        "height in width",
        "height ==",
        "\0",
        "(" * 500,
        "-" * 100_000 + "1",
        "",
    ],
)
def test_what_is_no_arithmetic_on_sizes_is_refused(condition):
    with pytest.raises(EngineError, match="a condition is arithmetic on height and width, got "):
        broken([condition], 3, 4)
