"""From LLVM assembly to addresses of functions that can be called."""

import threading
from collections.abc import Iterable
from functools import cache

from llvmlite import binding as llvm

from scumble.engines.cpu.target import Target, host_features

_lock = threading.Lock()


@cache
def _start() -> None:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()


def _machine(target: Target) -> llvm.TargetMachine:
    _start()
    features = target.features
    if not target.processor:
        own = ",".join(f"{'+' if on else '-'}{name}" for name, on in host_features().items())
        features = ",".join(part for part in (own, features) if part)
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=target.processor or llvm.get_host_cpu_name(), features=features, opt=2, jit=True
    )


def optimise(assembly: str, machine: llvm.TargetMachine) -> llvm.ModuleRef:
    """Return a checked and optimised module."""
    module = llvm.parse_assembly(assembly)
    module.verify()
    tuning = llvm.create_pipeline_tuning_options(speed_level=2)
    tuning.loop_unrolling = tuning.loop_vectorization = tuning.slp_vectorization = False
    builder = llvm.create_pass_builder(machine, tuning)
    builder.getModulePassManager().run(module, builder)
    return module


def to_object(assembly: str, target: Target) -> bytes:
    """Return machine code as an object file."""
    machine = _machine(target)
    return machine.emit_object(optimise(assembly, machine))


class Library:
    """Loaded machine code; lives as long as anybody may call it."""

    def __init__(self, target: Target) -> None:
        machine = _machine(target)
        self._engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)

    def add(self, objects: Iterable[bytes]) -> None:
        """Load object files."""
        for code in objects:
            self._engine.add_object_file(llvm.ObjectFileRef.from_data(code))
        self._engine.finalize_object()

    def function(self, name: str) -> int:
        """Return the address of a function."""
        return self._engine.get_function_address(name)
