"""One training step, run plainly or as a replayed CUDA graph."""

from collections.abc import Callable, Iterable
from typing import cast

import torch
from torch import Tensor, nn

from scumble.methods import Pruning
from scumble.training.ema import Ema
from scumble.training.teacher import Teacher

Loss = Callable[[Tensor, Tensor], Tensor]

# torch asks for a few plain runs on a side stream before a graph is captured.
WARM_UPS = 3


class TrainStep:
    """Forward, backward and update of one batch.

    The loss of a network that is being pruned includes its penalty; after each step its pruning
    advances too.

    Args:
        network: what is trained.
        optimizer: of its parameters.
        loss: of the restored and the clean pictures.
        amp: the precision of the convolutions, such as ``torch.bfloat16``.
        forward: what to call instead of the network, such as its wrapper for several processes.
        clip: the largest norm of the gradient.
        ema: an average of the weights, to be kept up to date.
        teacher: a trained network whose pictures have a share in the loss.
    """

    def __init__(
        self,
        network: nn.Module,
        optimizer: torch.optim.Optimizer,
        loss: Loss,
        amp: torch.dtype | None = None,
        forward: nn.Module | None = None,
        clip: float | None = None,
        ema: Ema | None = None,
        teacher: Teacher | None = None,
    ) -> None:
        pruning = getattr(network, "pruning", None)
        self.network = network
        self.optimizer = optimizer
        self.loss = loss
        self.amp = amp
        self.forward = forward or network
        self.clip = clip
        self.ema = ema
        self.teacher = teacher
        self.pruning = pruning if isinstance(pruning, Pruning) else None
        self.objective: Callable[[Tensor, Tensor], Tensor] = self._objective

    def compile_(self) -> None:
        """Compile forward and backward as one graph each."""
        self.objective = cast(
            Callable[[Tensor, Tensor], Tensor], torch.compile(self._objective, fullgraph=True)
        )

    def __call__(self, degraded: Tensor, clean: Tensor) -> Tensor:
        """Train on one batch and return its loss, which stays on the device."""
        value = self.update(degraded, clean)
        self.advance()
        return value

    def update(self, degraded: Tensor, clean: Tensor) -> Tensor:
        """Do what a graph can hold: forward, backward, optimizer, average."""
        # Gradients keep their memory: a captured graph writes to the addresses it saw.
        self.optimizer.zero_grad(set_to_none=False)
        value = self.objective(degraded, clean)
        value.backward()
        if self.clip is not None:
            nn.utils.clip_grad_norm_(self.network.parameters(), self.clip)
        self.optimizer.step()
        if self.ema is not None:
            self.ema.update()
        return value.detach()

    def advance(self) -> None:
        """Do the rest: the pruning looks at itself."""
        if self.pruning is not None:
            self.pruning.step()

    def tensors(self) -> Iterable[Tensor]:
        """Return everything that an update changes."""
        yield from self.network.parameters()
        yield from self.network.buffers()
        yield from self.ema.shadow if self.ema is not None else ()
        for state in self.optimizer.state.values():
            yield from (value for value in state.values() if isinstance(value, Tensor))

    def _objective(self, degraded: Tensor, clean: Tensor) -> Tensor:
        with torch.autocast(degraded.device.type, self.amp, enabled=self.amp is not None):
            restored = self.forward(degraded).float()
            taught = None if self.teacher is None else self.teacher(degraded).float()
        value = self.loss(restored, clean)
        if self.teacher is not None and taught is not None:
            value = value + self.teacher.share * (self.loss(restored, taught) - value)
        return value if self.pruning is None else value + self.pruning.penalty()


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
            self.value = step.update(self.degraded, self.clean)

    def __call__(self, degraded: Tensor, clean: Tensor) -> Tensor:
        """Train on one batch; the loss that comes back is overwritten by the next call."""
        self._fill(degraded, clean)
        self.graph.replay()
        self.step.advance()
        return self.value

    def _fill(self, degraded: Tensor, clean: Tensor) -> None:
        self.degraded.copy_(degraded, non_blocking=True)
        self.clean.copy_(clean, non_blocking=True)

    def _warm_up(self, stream: torch.cuda.Stream) -> None:
        """Run a few steps, then put everything back as it was."""
        before = {id(tensor): tensor.detach().clone() for tensor in self.step.tensors()}
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(WARM_UPS):
                self.step.update(self.degraded, self.clean)
        torch.cuda.current_stream().wait_stream(stream)
        with torch.no_grad():
            for tensor in self.step.tensors():
                # What was not there before is the optimizer's, which starts from zero.
                tensor.copy_(before.get(id(tensor), torch.zeros_like(tensor)))
