"""One training step, run plainly or as a replayed CUDA graph."""

from collections.abc import Callable
from typing import cast

import torch
from torch import Tensor, nn

from scumble.methods import Pruning

Loss = Callable[[Tensor, Tensor], Tensor]

# torch asks for a few plain runs on a side stream before a graph is captured.
WARM_UPS = 3


class TrainStep:
    """Forward, backward and update of one batch.

    The loss of a network that is being pruned includes its penalty; after each step its pruning
    advances too.
    """

    def __init__(
        self,
        network: nn.Module,
        optimizer: torch.optim.Optimizer,
        loss: Loss,
        amp: torch.dtype | None = None,
    ) -> None:
        pruning = getattr(network, "pruning", None)
        self.network = network
        self.optimizer = optimizer
        self.loss = loss
        self.amp = amp
        self.pruning = pruning if isinstance(pruning, Pruning) else None
        self.objective: Callable[[Tensor, Tensor], Tensor] = self._objective

    def compile_(self) -> None:
        """Compile forward and backward as one graph each."""
        self.objective = cast(
            Callable[[Tensor, Tensor], Tensor], torch.compile(self._objective, fullgraph=True)
        )

    def __call__(self, degraded: Tensor, clean: Tensor) -> Tensor:
        """Train on one batch and return its loss, which stays on the device."""
        value = self._update(degraded, clean)
        self._advance()
        return value

    def _objective(self, degraded: Tensor, clean: Tensor) -> Tensor:
        with torch.autocast(degraded.device.type, self.amp, enabled=self.amp is not None):
            restored = self.network(degraded)
        value = self.loss(restored.float(), clean)
        return value if self.pruning is None else value + self.pruning.penalty()

    def _update(self, degraded: Tensor, clean: Tensor) -> Tensor:
        # Gradients keep their memory: a captured graph writes to the addresses it saw.
        self.optimizer.zero_grad(set_to_none=False)
        value = self.objective(degraded, clean)
        value.backward()
        self.optimizer.step()
        return value.detach()

    def _advance(self) -> None:
        if self.pruning is not None:
            self.pruning.step()


class CapturedStep:
    """A training step on a GPU whose kernels are launched all at once."""

    def __init__(self, step: TrainStep, degraded: Tensor, clean: Tensor) -> None:
        self.step = step
        self.degraded = torch.empty_like(degraded)
        self.clean = torch.empty_like(clean)
        self._fill(degraded, clean)
        stream = torch.cuda.Stream()
        self._warm_up(stream)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=stream):
            self.value = step._update(self.degraded, self.clean)

    def __call__(self, degraded: Tensor, clean: Tensor) -> Tensor:
        """Train on one batch; the loss that comes back is overwritten by the next call."""
        self._fill(degraded, clean)
        self.graph.replay()
        self.step._advance()
        return self.value

    def _fill(self, degraded: Tensor, clean: Tensor) -> None:
        self.degraded.copy_(degraded, non_blocking=True)
        self.clean.copy_(clean, non_blocking=True)

    def _warm_up(self, stream: torch.cuda.Stream) -> None:
        """Run a few steps, then put everything back as it was."""
        network, optimizer = self.step.network, self.step.optimizer
        before = {key: value.clone() for key, value in _tensors(network).items()}
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(WARM_UPS):
                self.step._update(self.degraded, self.clean)
        torch.cuda.current_stream().wait_stream(stream)
        with torch.no_grad():
            for key, value in _tensors(network).items():
                value.copy_(before[key])
            for state in optimizer.state.values():
                for value in state.values():
                    if isinstance(value, Tensor):
                        value.zero_()


def _tensors(network: nn.Module) -> dict[str, Tensor]:
    return dict(network.named_parameters()) | dict(network.named_buffers())
