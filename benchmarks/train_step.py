"""Time one training step of CARN x4: dense, and while SLS prunes it.

    python benchmarks/train_step.py --device cpu --batch 4 -o results.json
    python benchmarks/train_step.py --device cuda -o results.json      # batch 16, 48x48, bf16

On a GPU each step is also captured whole as a CUDA graph, with and without torch.compile. Dense
and SLS alternate; a figure is the median of the rounds, with the quartiles beside it.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as F

import scumble
from machine import describe
from scumble.training.step import CapturedStep, TrainStep

Step = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def build_step(sparse: bool, device: str, batch: int, mode: str) -> tuple[Step, tuple]:
    """Return a ready step and the batch that it runs on."""
    torch.manual_seed(0)
    network = scumble.build("carn-x4")
    if sparse:
        # On a GPU the budget is looked at every 20 steps: each look waits for the device.
        method = scumble.SLS(m=32, budget="1/8", check_every=20 if device == "cuda" else 1)
        network = scumble.sparsify(network, method)
    network = network.to(device, memory_format=torch.channels_last)
    degraded = torch.rand(batch, 3, 48, 48, device=device)
    clean = torch.rand(batch, 3, 192, 192, device=device)
    fast = {"capturable": True, "fused": True} if device == "cuda" else {}
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-4, **fast)
    amp = torch.bfloat16 if device == "cuda" else None
    step = TrainStep(network, optimizer, F.l1_loss, amp)
    if mode in ("compiled", "compiled+graph"):
        step.compile_()
    data = (degraded.to(memory_format=torch.channels_last), clean)
    return (CapturedStep(step, *data) if mode.endswith("graph") else step), data


def seconds(step: Step, data: tuple, steps: int, device: str) -> float:
    """Return the time of one step, averaged over a few in a row."""
    if device == "cuda":
        torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(steps):
        step(*data)
    if device == "cuda":
        torch.cuda.synchronize()
    return (time.perf_counter() - start) / steps


def measure(device: str, batch: int, mode: str, rounds: int, steps: int) -> dict:
    """Return the times of the dense and the SLS step in one mode, taken in turns."""
    made = {name: build_step(name == "sls", device, batch, mode) for name in ("dense", "sls")}
    for step, data in made.values():
        seconds(step, data, max(2, steps // 10), device)
    times: dict[str, list[float]] = {name: [] for name in made}
    for _ in range(rounds):
        for name, (step, data) in made.items():
            times[name].append(1000 * seconds(step, data, steps, device))
    ratios = [sls / dense for sls, dense in zip(times["sls"], times["dense"], strict=True)]
    row = {"mode": mode, "batch": batch, "rounds": rounds, "steps_per_round": steps}
    for name, values in (*times.items(), ("ratio", ratios)):
        low, middle, high = statistics.quantiles(values, n=4)
        row[name] = {"median": round(middle, 3), "quartiles": [round(low, 3), round(high, 3)]}
    if device == "cuda":
        row["peak_mib_both"] = torch.cuda.max_memory_allocated() // 2**20
        torch.cuda.reset_peak_memory_stats()
    return row


def mask_memory() -> dict:
    """Return what SLS keeps beside one 3x3 layer of 64 channels at M = 32."""
    sparse = scumble.sparsify(scumble.build("carn-x4"), scumble.SLS(m=32))
    layer = sparse.get_submodule("body.stages.0.stages.0.conv1")
    return {"weight_bytes": layer.weight.nbytes, "rank_bytes": layer.ranks.nbytes}


def main() -> None:
    """Measure what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--steps", type=int, default=None, help="in a row, per round")
    parser.add_argument("--modes", default=None, help="comma-separated")
    parser.add_argument("-o", "--output", type=Path)
    given = parser.parse_args()
    modes = given.modes or ("eager" if given.device == "cpu" else "eager,graph,compiled+graph")
    steps = given.steps or (1 if given.device == "cpu" else 100)
    rows = []
    for mode in modes.split(","):
        rows.append(measure(given.device, given.batch, mode, given.rounds, steps))
        dense, sls, ratio = (rows[-1][name]["median"] for name in ("dense", "sls", "ratio"))
        print(f"{mode:>16}: dense {dense:8.3f} ms, SLS {sls:8.3f} ms, ratio {ratio:.3f}")
    result = {"machine": describe(given.device), "mask_memory": mask_memory(), "rows": rows}
    print(json.dumps(result["machine"]), json.dumps(result["mask_memory"]))
    if given.output:
        given.output.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
