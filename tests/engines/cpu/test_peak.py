import ctypes

import pytest

from scumble.engines.cpu import peak
from scumble.engines.cpu.target import available
from scumble.errors import EngineError

needs_target = pytest.mark.skipif(not available(), reason="needs x86-64 or 64-bit ARM")


@needs_target
@pytest.mark.parametrize("target", available(), ids=lambda target: target.name)
def test_the_loop_computes_what_it_says(target):
    loop, _ = peak._loop(target)
    result = (ctypes.c_float * target.lanes)()
    loop(2, ctypes.addressof(result))
    expected = sum((k * 0.5 + 1) * 0.5 + 1 for k in range(target.most_sums))
    assert list(result) == [pytest.approx(expected)] * target.lanes


@needs_target
def test_a_peak_is_more_than_a_computer_of_long_ago():
    assert peak.fma_peak(1, seconds=0.01) > 1e8


@needs_target
def test_operations_of_all_threads_count(monkeypatch):
    rates = iter([1e9, 1e9, 5.0, 1.0, 3.0, 2.0, 4.0])
    monkeypatch.setattr(peak, "_rate", lambda target, threads, trips: next(rates))
    assert peak.fma_peak(1) == 3.0


def test_no_threads_and_other_machines_are_refused(monkeypatch):
    with pytest.raises(EngineError, match="a peak is measured on at least 1 thread, got 0"):
        peak.fma_peak(0)
    monkeypatch.setattr(peak, "available", list)
    with pytest.raises(EngineError, match="measured on x86-64 and 64-bit ARM, this machine is"):
        peak.fma_peak(1)
