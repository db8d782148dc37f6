"""How a compiled network is run, in words."""

from typing import TYPE_CHECKING

from scumble.engines.cpu.layers import Convolve, Layers
from scumble.engines.cpu.native import Native

if TYPE_CHECKING:
    from scumble.engines.cpu.compiled import CompiledCpu


def explain(compiled: "CompiledCpu") -> str:
    """Return what runs natively, and what does not and why."""
    machine = compiled.machine
    target = machine.kernels.target
    threads = f"{machine.threads} thread{'s' if machine.threads > 1 else ''}"
    lines = [f"{compiled.title} runs on engine cpu, {target.name}, {threads}"]
    for piece in compiled.pieces:
        if isinstance(piece, Native):
            lines += _native(piece)
        else:
            lines.append(f"  PyTorch: {piece.name}: {piece.reason}")
    return "\n".join(lines)


def _native(piece: Native) -> list[str]:
    lines = [f"  native: {_summary(piece.layers)}"]
    for sizes, plan in piece.plans.items():
        size = ", ".join(f"{width}x{height}" for _, height, width in sizes)
        together = sum(len(group.layers) > 1 for group in plan.groups)
        lines.append(
            f"    for {size}: {len(plan.groups)} groups, {together} of them of several layers "
            f"row by row, {plan.memory / 2**20:.0f} MiB"
        )
    return lines


def _summary(layers: Layers) -> str:
    convs = [layer.work.conv for layer in layers.layers if isinstance(layer.work, Convolve)]
    patterns: dict[str, int] = {}
    for conv in convs:
        name = str(conv.pattern) if conv.pattern else "dense"
        patterns[name] = patterns.get(name, 0) + 1
    others = len(layers.layers) - len(convs)
    kinds = ", ".join(f"{count} {name}" for name, count in sorted(patterns.items()))
    return f"{len(convs)} convolutions ({kinds}), {others} other layers"
