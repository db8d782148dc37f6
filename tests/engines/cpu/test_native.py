import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scumble.engines.cpu.target import available
from tests.engines.cpu.random_graphs import cases, native, outputs, worst

TOLERANCE = 1e-5


@settings(max_examples=150)
@given(cases(), st.integers(1, 3), st.sampled_from([1 << 14, 1 << 18, 1 << 22]))
def test_any_graph_gives_what_pytorch_gives(case, threads, cache):
    assert worst(case, outputs(case, native(case, threads, cache))) < TOLERANCE


@pytest.mark.parametrize("on", available(), ids=lambda target: target.name)
@settings(max_examples=40)
@given(case=cases())
def test_every_vector_width_gives_what_pytorch_gives(on, case):
    assert worst(case, outputs(case, native(case, threads=2, on=on))) < TOLERANCE
