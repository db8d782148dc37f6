from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from scumble.restore.windows import Span, spans


@st.composite
def sides(draw):
    halo = draw(st.integers(0, 30))
    return draw(st.integers(1, 700)), draw(st.integers(2 * halo + 1, 2 * halo + 200)), halo


@given(sides())
def test_right_parts_cover_a_side_once_and_in_order(side):
    length, longest, halo = side
    found = spans(length, longest, halo)
    assert found[0].right_from == 0
    assert found[-1].right_to == length
    for one, other in pairwise(found):
        assert one.right_to == other.right_from


@given(sides())
def test_every_right_pixel_sees_its_halo_or_the_border(side):
    length, longest, halo = side
    for span in spans(length, longest, halo):
        assert span.start <= span.right_from <= span.right_to <= span.stop
        assert span.start == 0 or span.right_from - span.start >= halo
        assert span.stop == length or span.stop - span.right_to >= halo


@given(sides())
def test_all_windows_of_a_side_have_one_length_within_the_limit(side):
    length, longest, halo = side
    lengths = {span.stop - span.start for span in spans(length, longest, halo)}
    assert len(lengths) == 1
    assert lengths.pop() <= longest


def test_what_fits_is_one_window():
    assert spans(64, 64, 8) == [Span(0, 64, 0, 64)]


def test_windows_are_no_longer_than_their_number_needs():
    # Two of 600 pixels would do with 321 each; a multiple of 16 is shared by more pictures.
    assert [(s.start, s.stop) for s in spans(600, 512, 21)] == [(0, 336), (264, 600)]
