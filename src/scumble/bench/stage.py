"""What all contestants are given: the networks as files, one picture, and what is to come out."""

from pathlib import Path

import numpy as np
import torch

from scumble.bench.cases import Case
from scumble.bench.peers import PEERS, Files
from scumble.checkpoint import read_info, save
from scumble.engines import compile
from scumble.errors import EngineError, NetworkError
from scumble.exports.onnx_model import to_onnx
from scumble.inspection import inspect

# Nobody who computes in float32 is so far off; a time for another picture says nothing.
LARGEST_DIFFERENCE = 1e-3


class Stage:
    """One case at one size of picture, in a folder."""

    def __init__(self, case: Case, size: tuple[int, int], folder: Path) -> None:
        folder.mkdir()
        self.case = case
        self.files = Files(
            folder / "network.safetensors", folder / "network.onnx", folder / "picture.npy"
        )
        cost = inspect(case.module, size).cost
        self.macs = cost.conv_macs
        self.dense_macs = sum(layer.dense_macs for layer in cost.layers)
        self._picture = np.random.default_rng(0).random((1, 3, *size), dtype=np.float32)
        np.save(self.files.picture, self._picture)
        save(case.module, self.files.network)
        if read_info(self.files.network).network is None:
            raise NetworkError(
                f"timing needs a network that scumble can build by name in other processes, "
                f"got {case.network}, a {type(case.module).__name__}"
            )
        reference = compile(case.module, "reference")
        self.expected = reference(torch.from_numpy(self._picture)).numpy()

    def prepare(self, engine: str) -> None:
        """Export the network for an engine that needs it so, once."""
        if engine in PEERS and PEERS[engine].needs_onnx and not self.files.onnx.exists():
            # Of this size only: fixed sizes are what these engines are fastest on.
            model = to_onnx(self.case.module, torch.from_numpy(self._picture), any_size=False)
            self.files.onnx.write_bytes(model.SerializeToString())

    def difference(self, made: np.ndarray, title: str) -> float:
        """Return the largest difference to the expected picture, as a share of its range."""
        if made.shape != self.expected.shape:
            raise EngineError(f"{title} made a picture of {made.shape}, not {self.expected.shape}")
        span = float(self.expected.max() - self.expected.min()) or 1.0
        found = float(np.abs(made - self.expected).max()) / span
        if not found <= LARGEST_DIFFERENCE:
            raise EngineError(
                f"{title} made another picture than the reference, off by {found:.2%} of its "
                f"range; its time would say nothing"
            )
        return found
