"""Running a network on a large picture in tiles, with the result of the whole picture."""

import copy
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd

from scumble.errors import NetworkError

# Sides of the pictures on which the reach is looked for; what does not fit the last has none.
SIDES = (32, 64, 96, 160, 256)

# Pixels left around what is felt, to look at it from a second place.
MARGIN = 5

# Between two orders of summation in float64, of the largest value.
SAME = 1e-9


@torch.no_grad()
def reach(network: nn.Module, scale: int) -> int | None:
    """Return how many pixels around a pixel can change its result; None if tiles cannot be exact.

    They cannot where the reach is above 122 pixels, as with averages over the whole picture, or
    where results depend on where the picture begins and ends, as with strides.

    >>> import scumble
    >>> reach(scumble.build("edsr-x2", features=4, blocks=1), scale=2)
    6
    """
    # In float64 on the CPU a convolution is a plain sum; Winograd's would spread the NaN further.
    plain = copy.deepcopy(network).cpu().double().eval()
    chance = torch.Generator().manual_seed(0)
    for side in SIDES:
        image = torch.rand(1, 3, side, side, dtype=torch.float64, generator=chance)
        middle = side // 2
        try:
            felt = _felt(plain, image, scale, middle)
        except Exception as error:
            reason = str(error).partition("\n")[0]
            raise NetworkError(
                f"the reach of {type(network).__name__} cannot be found, because it cannot be run "
                f"on a picture of {side}x{side} pixels: {reason}"
            ) from error
        found = int((felt // scale).abs().max()) if len(felt) else 0
        # More may be felt outside of the picture only if the widest gap leads there.
        if found + _widest_gap(network) + MARGIN <= middle:
            # Apart from the middle by a multiple of neither 2 nor 3, so that strides show.
            place = next(p for p in range(found + 2, middle) if math.gcd(p - middle, 6) == 1)
            enough = image[..., : 2 * place + 2, : 2 * place + 2]
            even = _is_alike_elsewhere(plain, enough, scale, felt, place)
            return found if even and _is_blind_to_cuts(plain, enough, scale, found) else None
    return None


def _widest_gap(network: nn.Module) -> int:
    """Return the most pixels between two neighbours that a kernel looks at."""
    convolutions = (module for module in network.modules() if isinstance(module, _ConvNd))
    return max((step for module in convolutions for step in module.dilation), default=1)


def _felt(network: nn.Module, image: Tensor, scale: int, place: int) -> Int[Tensor, "n 2"]:
    """Return where, from row and column ``place`` on, a NaN put there is felt in the result.

    Whatever depends on a NaN is one too: nothing cancels, and a weight of zero hides nothing.
    """
    poisoned = image.clone()
    poisoned[..., place, place] = math.nan
    return _run(network, poisoned, scale)[0].isnan().any(dim=0).nonzero() - scale * place


def _is_alike_elsewhere(
    network: nn.Module, image: Tensor, scale: int, felt: Tensor, place: int
) -> bool:
    """Return whether a NaN at another place is felt at the same distances."""
    try:
        return torch.equal(felt, _felt(network, image, scale, place))
    except Exception:
        return False  # it runs only on sizes of its own choice, which tiles do not have


def _is_blind_to_cuts(network: nn.Module, image: Tensor, scale: int, halo: int) -> bool:
    """Return whether nothing beyond the halo changes when a pixel is cut off every side.

    This sees what spreads no NaN of its own: places, sizes, and strides below a wider kernel.
    """
    whole = _run(network, image, scale)
    try:
        cut = _run(network, image[..., 1:-1, 1:-1], scale)
    except Exception:
        return False
    inner = slice(scale * halo, cut.shape[-1] - scale * halo)
    change = (cut - whole[..., scale:-scale, scale:-scale])[..., inner, inner].abs().max()
    return bool(change <= SAME * whole.abs().max())


@dataclass(frozen=True)
class _Span:
    """One tile along one side of the picture, in input pixels."""

    start: int
    stop: int
    seen_from: int  # start less what there is of the halo
    seen_to: int


def _spans(length: int, tile: int, halo: int) -> Iterator[_Span]:
    for start in range(0, length, tile):
        stop = min(start + tile, length)
        yield _Span(start, stop, max(start - halo, 0), min(stop + halo, length))


@torch.no_grad()
def run_tiled(
    network: Callable[[Tensor], Tensor],
    image: Float[Tensor, "b c h w"],
    scale: int,
    tile: int,
    halo: int,
) -> Float[Tensor, "b c large_h large_w"]:
    """Return what ``network(image)`` returns, computed in tiles of ``tile`` pixels a side.

    Each tile is run with ``halo`` more pixels on every side, of which only those exist that the
    picture has: at its borders the network's own padding acts, as it does on the whole. With
    ``halo=reach(network, scale)`` the result is the same but for the order of summation.
    """
    if tile < 1 or halo < 0:
        raise NetworkError(
            f"tiles need at least 1 pixel and a halo of 0 or more, got {tile} and {halo}"
        )
    height, width = image.shape[-2:]
    result = image.new_empty(*image.shape[:2], scale * height, scale * width)
    for y in _spans(height, tile, halo):
        for x in _spans(width, tile, halo):
            seen = image[..., y.seen_from : y.seen_to, x.seen_from : x.seen_to]
            restored = _run(network, seen, scale)
            result[..., _enlarged(y, 0, scale), _enlarged(x, 0, scale)] = restored[
                ..., _enlarged(y, y.seen_from, scale), _enlarged(x, x.seen_from, scale)
            ]
    return result


def _enlarged(span: _Span, origin: int, scale: int) -> slice:
    """Return where the tile's own part lies in an enlarged picture that begins at ``origin``."""
    return slice(scale * (span.start - origin), scale * (span.stop - origin))


def _run(network: Callable[[Tensor], Tensor], image: Tensor, scale: int) -> Tensor:
    result = network(image)
    height, width = image.shape[-2:]
    if result.shape[-2:] != (scale * height, scale * width):
        raise NetworkError(
            f"a network of scale {scale} needs to make {scale * width}x{scale * height} pixels of "
            f"{width}x{height}, got {result.shape[-1]}x{result.shape[-2]}"
        )
    return result
