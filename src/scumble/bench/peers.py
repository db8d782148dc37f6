"""How each engine is run at its best; every one of these lives in a process of its own.

Nothing is imported before it is needed: the process of one engine does not carry the others.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from scumble.errors import EngineError

# Freed memory is kept, in large pages: a fresh page for every intermediate result costs dense
# engines up to two thirds of their time.
_KEPT = 1 << 32
MALLOC = (
    f"glibc.malloc.mmap_threshold={_KEPT}:glibc.malloc.trim_threshold={_KEPT}"
    f":glibc.malloc.hugetlb=1"
)


@dataclass(frozen=True)
class Files:
    """What a contestant is given: one network in two forms, and a picture."""

    network: Path  # .safetensors
    onnx: Path
    picture: Path  # .npy


class Seat(ABC):
    """A network in the hands of one engine; first opened, then compiled, then run."""

    libraries: ClassVar[tuple[str, ...]] = ()
    needs_onnx: ClassVar[bool] = False

    def __init__(self, files: Files, threads: int) -> None:
        self.files = files
        self.threads = threads
        self.picture: Any = np.load(files.picture)

    @abstractmethod
    def compile(self) -> None:
        """Make the network ready."""

    @abstractmethod
    def run(self) -> None:
        """Run it once."""

    @abstractmethod
    def output(self) -> np.ndarray:
        """Return what the last run made."""


class Torch(Seat):
    """PyTorch, channels last."""

    def __init__(self, files: Files, threads: int) -> None:
        super().__init__(files, threads)
        import torch

        from scumble.checkpoint import load

        torch.set_num_threads(threads)
        self.mode = torch.inference_mode()
        self.network = load(files.network)

    def compile(self) -> None:
        """Lay out weights and picture channels last."""
        import torch

        last = torch.channels_last
        self.network = self.network.eval().to(memory_format=last)  # pyright: ignore[reportCallIssue]
        self.picture = torch.from_numpy(self.picture).contiguous(memory_format=last)

    def run(self) -> None:
        """Run it once."""
        with self.mode:
            self.result = self.network(self.picture)

    def output(self) -> np.ndarray:
        """Return what the last run made."""
        return self.result.contiguous().numpy()


class OnnxRuntime(Seat):
    """ONNX Runtime, all optimisations, memory bound beforehand."""

    libraries = ("onnx", "onnxscript", "onnxruntime")
    needs_onnx = True

    def __init__(self, files: Files, threads: int) -> None:
        super().__init__(files, threads)
        import onnxruntime

        self.library = onnxruntime

    def compile(self) -> None:
        """Open a session on the exported network."""
        options = self.library.SessionOptions()
        options.graph_optimization_level = self.library.GraphOptimizationLevel.ORT_ENABLE_ALL
        options.execution_mode = self.library.ExecutionMode.ORT_SEQUENTIAL
        options.intra_op_num_threads = self.threads
        options.inter_op_num_threads = 1
        options.add_session_config_entry("session.intra_op.allow_spinning", "1")
        self.session = self.library.InferenceSession(
            str(self.files.onnx), options, providers=["CPUExecutionProvider"]
        )
        value = self.library.OrtValue
        (given,), (result,) = self.session.get_inputs(), self.session.get_outputs()
        self.result = value.ortvalue_from_shape_and_type(result.shape, np.float32)
        self.binding = self.session.io_binding()
        self.binding.bind_ortvalue_input(given.name, value.ortvalue_from_numpy(self.picture))
        self.binding.bind_ortvalue_output(result.name, self.result)

    def run(self) -> None:
        """Run it once."""
        self.session.run_with_iobinding(self.binding)

    def output(self) -> np.ndarray:
        """Return what the last run made."""
        return self.result.numpy()


class OpenVino(Seat):
    """OpenVINO for the least time per picture, in float32, memory bound beforehand."""

    libraries = ("onnx", "onnxscript", "openvino")
    needs_onnx = True

    def __init__(self, files: Files, threads: int) -> None:
        super().__init__(files, threads)
        import openvino

        self.library = openvino

    def compile(self) -> None:
        """Compile the exported network."""
        core = self.library.Core()
        settings = {
            "INFERENCE_PRECISION_HINT": "f32",
            "PERFORMANCE_HINT": "LATENCY",
            "INFERENCE_NUM_THREADS": self.threads,
        }
        compiled = core.compile_model(core.read_model(self.files.onnx), "CPU", settings)
        self.request = compiled.create_infer_request()
        self.result = np.empty(tuple(compiled.output(0).shape), np.float32)
        tensor = self.library.Tensor
        self.request.set_input_tensor(tensor(self.picture, shared_memory=True))
        self.request.set_output_tensor(tensor(self.result, shared_memory=True))

    def run(self) -> None:
        """Run it once."""
        self.request.infer()

    def output(self) -> np.ndarray:
        """Return what the last run made."""
        return self.result


class Ours(Seat):
    """An engine of scumble."""

    def __init__(self, files: Files, threads: int, engine: str) -> None:
        super().__init__(files, threads)
        import torch

        from scumble.checkpoint import load

        self.engine = engine
        self.network = load(files.network)
        self.picture = torch.from_numpy(self.picture)

    def compile(self) -> None:
        """Compile the network as anybody would."""
        from scumble.engines import compile

        self.compiled = compile(self.network.eval(), self.engine, self.threads)

    def run(self) -> None:
        """Run it once."""
        self.result = self.compiled(self.picture)

    def output(self) -> np.ndarray:
        """Return what the last run made."""
        return self.result.contiguous().numpy()


PEERS: dict[str, type[Seat]] = {
    "torch": Torch,
    "onnxruntime": OnnxRuntime,
    "openvino": OpenVino,
}


def take_seat(engine: str, files: Files, threads: int) -> Seat:
    """Return the network opened by an engine: a peer, or one of ours."""
    if engine in PEERS:
        return PEERS[engine](files, threads)
    return Ours(files, threads, engine)


def check_library(engine: str) -> None:
    """Refuse a peer whose library is not installed."""
    for library in PEERS[engine].libraries if engine in PEERS else ():
        if find_spec(library) is None:
            raise EngineError(
                f"timing {engine} needs {library}, which is not installed; "
                f"pip install scumble[bench], or leave {engine} out (--engines)"
            )
