"""Named ways to score a restored picture, so that two numbers of one name can be compared."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import torch
from jaxtyping import Float, Shaped, UInt8
from torch import Tensor

from scumble.errors import MetricError
from scumble.metrics.colour import luma
from scumble.metrics.lpips import Lpips
from scumble.metrics.psnr import psnr
from scumble.metrics.ssim import WINDOW, ssim
from scumble.registry import Registry


@dataclass(frozen=True)
class Protocol:
    """One way to score; ``PROTOCOLS`` has them by name.

    >>> clean = torch.randint(256, (3, 24, 24), dtype=torch.uint8)
    >>> PROTOCOLS["sr-y-x4"].score(clean, clean)
    {'psnr': inf, 'ssim': 1.0}
    """

    name: str
    description: str  # one sentence for people
    scale: int  # the clean picture is cropped to multiples of this
    colours: Literal["y", "rgb"]  # what PSNR and SSIM look at
    shave: int  # pixels left out at every border
    lpips: Lpips | None = field(default=None, repr=False)  # scored too if there, always on RGB

    def with_lpips(self, path: Path) -> "Protocol":
        """Return this protocol with LPIPS scored too, by the weights in the file ``path``."""
        return replace(self, lpips=Lpips.from_file(path))

    def crop(self, clean: Shaped[Tensor, "3 h w"]) -> Shaped[Tensor, "3 cropped_h cropped_w"]:
        """Return the part of the clean picture that is scored, and that is to be made small."""
        height, width = clean.shape[-2:]
        return clean[..., : height - height % self.scale, : width - width % self.scale]

    def prepare(self, restored: Float[Tensor, "3 h w"]) -> UInt8[Tensor, "3 h w"]:
        """Return a network's output, 0..1, as the 8-bit picture that would be saved."""
        if restored.isnan().any():
            raise MetricError(f"{self.name} needs a restored picture of numbers, got NaN in it")
        return restored.float().mul(255).round().clamp(0, 255).to(torch.uint8)

    def score(
        self, restored: Shaped[Tensor, "3 h w"], clean: UInt8[Tensor, "3 clean_h clean_w"]
    ) -> dict[str, float]:
        """Return the score by metric of a restored picture, floats 0..1 or 8 bits."""
        ours, truth = self._compared(restored, clean)
        ours_seen, truth_seen = self._seen(ours), self._seen(truth)
        scores = {"psnr": psnr(ours_seen, truth_seen), "ssim": ssim(ours_seen, truth_seen)}
        if self.lpips is not None:
            with torch.no_grad():
                distance = self.lpips(ours.unsqueeze(0) / 255, truth.unsqueeze(0) / 255)
            scores["lpips"] = distance.item()
        return scores

    def psnr(
        self, restored: Shaped[Tensor, "3 h w"], clean: UInt8[Tensor, "3 clean_h clean_w"]
    ) -> float:
        """Return the PSNR alone of a restored picture, floats 0..1 or 8 bits."""
        ours, truth = self._compared(restored, clean)
        return psnr(self._seen(ours), self._seen(truth))

    def _compared(self, restored: Tensor, clean: Tensor) -> tuple[Tensor, Tensor]:
        """Return what is compared of a restored picture and the clean one, in 8 bits."""
        self._check(restored, clean)
        if restored.is_floating_point():
            restored = self.prepare(restored)
        # Always on the CPU: a score must not depend on where the network ran.
        return self._shaved(restored.cpu()), self._shaved(self.crop(clean).cpu())

    def _seen(self, image: Tensor) -> Tensor:
        return luma(image.double()) if self.colours == "y" else image

    def _shaved(self, image: Tensor) -> Tensor:
        height, width = image.shape[-2:]
        return image[..., self.shave : height - self.shave, self.shave : width - self.shave]

    def _check(self, restored: Tensor, clean: Tensor) -> None:
        """Refuse pictures that this protocol cannot compare."""
        for which, image in (("restored", restored), ("clean", clean)):
            if image.ndim != 3 or image.shape[0] != 3:
                raise MetricError(
                    f"{self.name} needs one RGB picture [3, H, W], "
                    f"got a {which} one of shape {list(image.shape)}"
                )
        if clean.dtype != torch.uint8:
            raise MetricError(f"{self.name} needs a clean picture of uint8, got {clean.dtype}")
        if restored.dtype != torch.uint8 and not restored.is_floating_point():
            raise MetricError(
                f"{self.name} needs a restored picture of floats in 0..1 or of uint8, "
                f"got {restored.dtype}"
            )
        cropped = self.crop(clean)
        if restored.shape != cropped.shape:
            raise MetricError(
                f"{self.name} needs a restored picture of {_size(cropped)} pixels beside a clean "
                f"one of {_size(clean)}, got {_size(restored)}"
            )
        least = 2 * self.shave + WINDOW
        if min(cropped.shape[1:]) < least:
            raise MetricError(
                f"{self.name} needs pictures of at least {least}x{least} pixels, "
                f"got {_size(cropped)}"
            )


def _size(image: Tensor) -> str:
    return f"{image.shape[-1]}x{image.shape[-2]}"


def _sr_y(scale: int) -> Protocol:
    return Protocol(
        f"sr-y-x{scale}",
        f"PSNR and SSIM on Y of BT.601, 8-bit rounded, {scale} border pixels shaved, "
        f"the clean picture cropped to multiples of {scale}.",
        scale=scale,
        colours="y",
        shave=scale,
    )


PROTOCOLS: Registry[Protocol] = Registry("protocol")
PROTOCOLS.register("sr-y-x2")(_sr_y(2))
PROTOCOLS.register("sr-y-x3")(_sr_y(3))
PROTOCOLS.register("sr-y-x4")(_sr_y(4))
PROTOCOLS.register("gopro-rgb")(
    Protocol(
        "gopro-rgb",
        "PSNR and SSIM on RGB, 8-bit rounded, whole frame; LPIPS too where its weights are given.",
        scale=1,
        colours="rgb",
        shave=0,
    )
)
