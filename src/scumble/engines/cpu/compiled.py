"""A network as native code, its zeros left out."""

import weakref

import torch
from torch import Tensor, nn

from scumble.engines.base import Compiled
from scumble.engines.cpu.cache import folder
from scumble.engines.cpu.capture import capture
from scumble.engines.cpu.explain import explain
from scumble.engines.cpu.kernels import kernels
from scumble.engines.cpu.machine import Machine, second_level_cache
from scumble.engines.cpu.native import Native
from scumble.engines.cpu.pieces import Captured, NativePiece, TorchPiece
from scumble.engines.cpu.target import target
from scumble.engines.cpu.worker_kernel import WorkerKernel
from scumble.engines.cpu.workers import Workers
from scumble.errors import EngineError

NAME = "cpu"  # of the engine


class CompiledCpu(Compiled):
    """A network as native pieces, with pieces in PyTorch between them where need be."""

    engine = NAME

    def __init__(self, network: nn.Module, threads: int) -> None:
        self.title = type(network).__name__
        code = kernels(target())
        self.machine = Machine(code, threads, second_level_cache())
        self.workers = Workers(threads, code.address(WorkerKernel()))
        weakref.finalize(self, self.workers.close)
        self._take(capture(network, folder()))
        if self.captured.remembered and not self._agrees_with(network):
            self._take(capture(network))

    def _take(self, captured: Captured) -> None:
        self.captured = captured
        self.pieces: list[Native | TorchPiece] = [
            Native(piece, self.machine, self.workers) if isinstance(piece, NativePiece) else piece
            for piece in captured.pieces
        ]

    def __call__(self, image: Tensor) -> Tensor:
        """Return what the network makes of pictures ``[B, C, H, W]``."""
        self._check(image)
        try:
            with torch.inference_mode():
                pictures = image.detach().contiguous()
                results = [self._one(pictures[at : at + 1]) for at in range(len(pictures))]
                return torch.cat(results) if len(results) > 1 else results[0]
        except (MemoryError, RuntimeError) as error:
            if isinstance(error, RuntimeError) and "allocate memory" not in str(error):
                raise
            raise EngineError(
                f"this picture needs more memory than the system gives "
                f"({str(error).partition(chr(10))[0]}); restore it in tiles"
            ) from error

    def explain(self) -> str:
        """Say how the network is run."""
        return explain(self)

    def _one(self, picture: Tensor) -> Tensor:
        values = {self.captured.input: picture}
        for piece in self.pieces:
            results = piece.run(*(values[name] for name in piece.inputs))
            values.update(zip(piece.outputs, results, strict=True))
        found = values[self.captured.output]
        return found.clone() if found is picture else found

    def _check(self, image: Tensor) -> None:
        """Refuse what the native code would misread."""
        if not isinstance(image, Tensor):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise EngineError(f"engine cpu takes a tensor, got a {type(image).__name__}")
        if image.layout is not torch.strided:
            raise EngineError(
                "engine cpu takes pictures in memory as they are, got a sparse tensor"
            )
        channels = self.captured.channels
        if image.dim() != 4 or image.shape[1] != channels or not image.numel():
            raise EngineError(
                f"{self.title} takes pictures [B, {channels}, H, W], got {list(image.shape)}"
            )
        if image.dtype != torch.float32 or image.device.type != "cpu":
            dtype = str(image.dtype).removeprefix("torch.")
            raise EngineError(
                f"engine cpu takes pictures in float32 on the cpu, got {dtype} on {image.device}; "
                "engine reference takes what the network takes"
            )
        if not self.captured.holds(image.shape[2], image.shape[3]):
            raise EngineError(
                f"{self.title} does something else for pictures of {image.shape[3]}x"
                f'{image.shape[2]} than for others; use engine="reference"'
            )

    def _agrees_with(self, network: nn.Module) -> bool:
        """Return whether a remembered capture does what the network does, on a small picture."""
        height, width = next(
            (size for size in ((7, 9), (16, 24), (32, 48), (64, 96)) if self.captured.holds(*size)),
            (0, 0),
        )
        if not height:
            return False
        made = torch.Generator().manual_seed(0)
        picture = torch.rand(1, self.captured.channels, height, width, generator=made)
        training = network.training
        try:
            with torch.inference_mode():
                wanted = network.eval()(picture)
        finally:
            network.train(training)
        scale = float(wanted.abs().max()) + 1e-6
        return float((self(picture) - wanted).abs().max()) < 1e-4 * scale
