"""The engine for processors: a network as native code, its zeros left out."""

from torch import nn

from scumble.engines.base import Compiled, Engine, Job
from scumble.machine import cores


class Cpu(Engine):
    """Runs a network on the processor, by kernels made for its patterns."""

    name = "cpu"

    def refusals(self, job: Job) -> list[str]:
        """Return what it cannot do: other devices, other numbers, other machines."""
        found: list[str] = []
        if job.device != "cpu":
            found.append(f"it runs networks on the cpu, this one is on {job.device}")
        if job.dtype != "float32":
            found.append(f"it computes in float32, this network is in {job.dtype}")
        if not found:
            # Late: a machine that only trains, on a GPU, does without the code generator.
            from scumble.engines.cpu.target import available

            if not available():
                found.append("it makes code for x86-64 and 64-bit ARM, this machine is another")
        return found

    def compile(self, network: nn.Module, threads: int | None = None) -> Compiled:
        """Return the network as native code; what the code cannot express runs in PyTorch."""
        from scumble.engines.cpu.compiled import CompiledCpu  # late, like everything behind it

        return CompiledCpu(network, threads or cores())
