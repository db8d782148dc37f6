from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from scumble.core.packing import Packed, largest, most_kept, pack, unpack
from scumble.core.pattern import Pattern
from scumble.errors import PatternError
from tests.core.strategies import patterns, weights


@given(st.data(), patterns(), st.booleans())
def test_unpack_undoes_pack(data, pattern, whole):
    weight = data.draw(weights(pattern.m, whole))
    masked = weight * largest(weight, pattern, pad_groups=True)
    assert torch.equal(unpack(pack(masked, pattern)), masked)


@given(st.data(), patterns())
def test_at_most_n_are_kept_and_they_are_the_largest(data, pattern):
    weight = data.draw(weights(pattern.m))
    mask = largest(weight, pattern)
    assert most_kept(weight * mask, pattern.m) <= pattern.n
    groups, masks = (t.unflatten(1, (-1, pattern.m)) for t in (weight.abs(), mask))
    least_kept = groups.where(masks, torch.inf).amin(2)
    most_dropped = groups.where(~masks, -torch.inf).amax(2)
    assert bool((least_kept >= most_dropped).all())


def test_two_of_four_by_hand():
    weight = torch.tensor([0.0, -3.0, 0.0, 1.0]).view(1, 4, 1, 1)
    packed = pack(weight, Pattern(2, 4))
    assert packed.values.flatten().tolist() == [-3, 1]
    assert packed.slots.flatten().tolist() == [1, 3]


def test_a_weight_outside_its_pattern_is_refused():
    with pytest.raises(PatternError, match="packing 1:4 needs at most 1 non-zero .* got 2"):
        pack(torch.tensor([0.0, -3.0, 0.0, 1.0]).view(1, 4, 1, 1), Pattern(1, 4))


@pytest.fixture
def packed() -> Packed:
    weight = torch.randn(3, 6, 3, 3)
    return pack(weight * largest(weight, Pattern(2, 4), pad_groups=True), Pattern(2, 4))


def spoiled(packed: Packed, slots: dict[tuple, int]) -> Packed:
    changed = packed.slots.clone()
    for place, slot in slots.items():
        changed[place] = slot
    return replace(packed, slots=changed)


def test_a_slot_outside_its_group_is_refused(packed):
    with pytest.raises(PatternError, match="slots of 2:4 need to be below 4, got 200"):
        unpack(spoiled(packed, {(0, 0, 1, 0, 0): 200}))


def test_a_slot_given_twice_is_refused(packed):
    twice = {(0, 0, 0, 1, 1): 2, (0, 0, 1, 1, 1): 2}
    with pytest.raises(PatternError, match="slots need to rise inside a group"):
        unpack(spoiled(packed, twice))


def test_a_weight_beyond_the_last_channel_is_refused(packed):
    beyond = {(0, 1, 0, 0, 0): 2, (0, 1, 1, 0, 0): 3}
    with pytest.raises(PatternError, match="the last group has 2 channels, got a weight beyond"):
        unpack(spoiled(packed, beyond))


def test_values_of_another_shape_are_refused(packed):
    with pytest.raises(PatternError, match=r"need values of shape \(out, 2, 2, height, width\)"):
        unpack(replace(packed, values=packed.values[:, :1]))


def test_slots_of_another_type_or_shape_are_refused(packed):
    with pytest.raises(PatternError, match="slots need to be bytes of shape .* got int64"):
        unpack(replace(packed, slots=packed.slots.long()))
    with pytest.raises(PatternError, match="slots need to be bytes of shape"):
        unpack(replace(packed, slots=packed.slots[:1]))


def test_values_of_four_dimensions_are_refused(packed):
    with pytest.raises(PatternError, match=r"need values of shape .* got \(3, 2, 2, 9\)"):
        unpack(replace(packed, values=packed.values.flatten(3)))


def test_slots_out_of_order_are_refused(packed):
    falling = {(0, 0, 0, 1, 1): 3, (0, 0, 1, 1, 1): 1}
    with pytest.raises(PatternError, match="slots need to rise inside a group"):
        unpack(spoiled(packed, falling))


@pytest.mark.parametrize("dtype", [torch.int64, torch.bool, torch.complex64, torch.float8_e4m3fn])
def test_values_that_are_no_floats_are_refused(packed, dtype):
    with pytest.raises(PatternError, match="values need to be floating-point numbers of 16, 32"):
        unpack(replace(packed, values=packed.values.to(dtype)))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_every_type_of_weight_is_packed_and_unpacked(packed, dtype):
    weight = unpack(packed).to(dtype)
    again = unpack(pack(weight, packed.pattern))
    assert again.dtype == dtype
    assert torch.equal(again, weight)
