"""How a run ends early: Ctrl-C tells its threads to stop, and then they make no more calls."""

import ctypes
import os
import signal
import threading
import time

import pytest
import torch

import scumble
from scumble.engines.cpu.edge_kernel import MoveKernel
from scumble.engines.cpu.kernels import kernels
from scumble.engines.cpu.layer_code import bits
from scumble.engines.cpu.target import target
from scumble.engines.cpu.worker_kernel import Call, Program, WorkerKernel
from scumble.engines.cpu.workers import Workers, _Task
from tests.engines.cpu.test_whole_networks import lively, picture, pruned

Words = ctypes.Array[ctypes.c_int64]


def words(*values: int) -> Words:
    return (ctypes.c_int64 * len(values))(*values)


@pytest.mark.parametrize("stopped", [False, True])
def test_a_thread_that_is_told_to_stop_makes_no_more_calls(stopped):
    code = kernels(target())
    fill = code.address(MoveKernel(fill=True))
    spare = (ctypes.c_float * 32)()
    memory = ctypes.addressof(spare) + -ctypes.addressof(spare) % 64  # vectors need whole lines
    stop, done = ctypes.c_int64(0), ctypes.c_int64(0)
    arguments = words(memory, 0, 64, bits(7.0))
    call = [0] * len(Call)
    call[Call.FUNCTION], call[Call.ARGUMENTS] = fill, ctypes.addressof(arguments)
    calls, program = words(*call), [0] * len(Program)
    program[Program.CALLS], program[Program.LIST] = 1, ctypes.addressof(calls)
    program[Program.DONE], program[Program.STOP] = ctypes.addressof(done), ctypes.addressof(stop)
    started = words(*program)
    entry = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(code.address(WorkerKernel()))
    stop.value = int(stopped)
    entry(ctypes.addressof(started), 0)
    assert sum(spare) == (0.0 if stopped else 7.0 * 16)
    assert done.value == 1


def test_ctrl_c_tells_the_threads_to_stop():
    stop, told = ctypes.c_int64(0), threading.Event()

    @ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)
    def until_told(program, scratch):
        os.kill(os.getpid(), signal.SIGINT)
        for _ in range(2000):
            if stop.value:
                told.set()
                return
            time.sleep(0.01)

    workers = Workers(1, ctypes.cast(until_told, ctypes.c_void_p).value or 0)
    with pytest.raises(KeyboardInterrupt):
        workers.run(lambda: [(0, 0)], stop)
    workers.close()
    assert told.is_set()


def test_a_run_that_is_cancelled_makes_nothing(monkeypatch):
    engine = scumble.compile(pruned(lively("edsr-x2", features=32, blocks=1), "4:32"), "cpu", 2)
    given = picture(0, 20, 30)
    wanted = engine(given)
    begin = _Task.__init__

    def cancelled(self, *args):
        begin(self, *args)
        self.cancelled = True

    with monkeypatch.context() as patched:
        patched.setattr(_Task, "__init__", cancelled)
        assert not torch.equal(engine(given), wanted)
    assert torch.equal(engine(given), wanted)
