"""Whether what was exported makes the pictures that the network makes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from scumble.errors import ExportError

Run = Callable[[Tensor], Tensor]

TOLERANCE = 1e-4  # of pictures in 0..1; of the largest number in others

# Heights and widths to try, until a network runs on three of them.
SIZES = ((9, 7), (17, 31), (48, 32), (33, 47), (64, 96), (128, 192), (192, 320), (256, 384))
COUNT = 3


@dataclass(frozen=True)
class Comparison:
    """How an exported network compares with the network itself."""

    sizes: Sequence[tuple[int, int]]  # height and width of the inputs
    difference: float  # the largest, of pictures in 0..1

    def to_json(self) -> dict[str, object]:
        """Return everything as plain data."""
        return {
            "sizes": [f"{width}x{height}" for height, width in self.sizes],
            "largest_difference": float(f"{self.difference:.3g}"),
            "tolerance": TOLERANCE,
        }

    def __str__(self) -> str:
        sizes = ", ".join(f"{width}x{height}" for height, width in self.sizes)
        return f"largest difference {self.difference:.1e} on pictures of {sizes}"


def pictures(network: nn.Module) -> list[Tensor]:
    """Return one to three random RGB pictures in each of three sizes that a network takes."""
    chance = torch.Generator().manual_seed(0)
    found: list[Tensor] = []
    reason = ""
    for height, width in SIZES:
        picture = torch.rand(len(found) + 1, 3, height, width, generator=chance)
        try:
            made = run(network, picture)
        except Exception as error:  # whatever a network may raise
            reason = reason or str(error).strip().partition("\n")[0] or type(error).__name__
            continue
        if not isinstance(made, Tensor) or made.dim() != 4:
            raise ExportError(
                f"exporting needs a network that makes pictures [B, C, H, W] of RGB pictures, "
                f"{type(network).__name__} makes {_kind(made)}"
            )
        found.append(picture)
        if len(found) == COUNT:
            return found
    raise ExportError(
        f"exporting needs a network that runs on RGB pictures of any size, "
        f"{type(network).__name__} ran on {len(found)} of {len(SIZES)} sizes: {reason}"
    )


def run(network: nn.Module, picture: Tensor) -> Tensor:
    """Return what a network makes of pictures."""
    with torch.no_grad():
        return network(picture)


def compare(network: nn.Module, exported: Run, given: Sequence[Tensor]) -> Comparison:
    """Return the largest difference of what was exported; refuse one above the tolerance."""
    worst = 0.0
    for picture in given:
        wanted, made = run(network, picture), exported(picture)
        if made.shape != wanted.shape:
            raise ExportError(
                f"what was exported makes a picture of {list(made.shape)} where the network makes "
                f"{list(wanted.shape)}; nothing was written"
            )
        scale = max(1.0, float(wanted.abs().max()))
        found = float((made - wanted).abs().max()) / scale
        if not found <= TOLERANCE:
            height, width = picture.shape[2:]
            raise ExportError(
                f"what was exported makes another picture than the network: on {width}x{height} it "
                f"is off by {found:.1e}, more than {TOLERANCE:.0e}; nothing was written"
            )
        worst = max(worst, found)
    return Comparison([(p.shape[2], p.shape[3]) for p in given], worst)


def _kind(made: object) -> str:
    return f"{list(made.shape)}" if isinstance(made, Tensor) else f"a {type(made).__name__}"
