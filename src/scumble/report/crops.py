"""Crops side by side, from the picture that is restored worst and from the middle one (Fig. 5)."""

import base64
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from statistics import fmean

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from scumble.checkpoint import load
from scumble.comparison import DENSE, title_of
from scumble.data.bicubic import resize
from scumble.data.encoding import encode
from scumble.data.images import to_uint8
from scumble.data.photos import Pair, find_pairs, load_pair
from scumble.devices import pick_device
from scumble.models import spec_of
from scumble.report.subjects import Subject
from scumble.scoring import restore

SIDE = 96  # of a crop, in pixels of the clean picture
STRIDE = 8  # between two crops that are looked at
THUMB = 420  # longest side of the whole picture beside the crops
MOST = 8  # networks side by side


@dataclass(frozen=True)
class Crop:
    """One small picture."""

    title: str
    told: str  # the PSNR of the whole picture
    image: str  # a data URI
    best: bool = False


@dataclass(frozen=True)
class Scene:
    """One picture of a set, and what every network makes of a part of it."""

    title: str  # worst, middle
    network: str
    data: str
    picture: str
    whole: str  # a data URI
    size: tuple[int, int]  # height, width
    box: tuple[float, ...]  # left, top, width, height of the crops, in percent
    crops: tuple[Crop, ...]


@dataclass(frozen=True)
class Shown:
    """A network at work."""

    subject: Subject
    network: nn.Module


def scenes(
    network: str,
    subjects: Sequence[Subject],
    data: str,
    folder: str,
    device: str | None = None,
    told: Callable[[str], None] = lambda _: None,
) -> list[Scene]:
    """Return the worst and the middle picture of a set, by the mean PSNR of these networks."""
    chosen = [s for s in subjects if s.network is not None and s.cell.pictures.get(data)][:MOST]
    names = _worst_and_middle([subject.cell.pictures[data] for subject in chosen])
    if not names:
        return []
    where = pick_device(device)
    shown = [Shown(s, load(s.network or "").to(where).eval()) for s in chosen]
    spec = spec_of(shown[0].network)
    scale = spec.arguments["scale"] if spec else 1
    pairs = {pair.name: pair for pair in find_pairs(Path(folder), scale)}
    made: list[Scene] = []
    for title, name in names.items():
        if name in pairs:
            told(f"restoring {name}")
            made.append(_scene(title, network, data, pairs[name], shown, scale))
    return made


def side_by_side(subjects: Sequence[Subject]) -> list[Subject]:
    """Return the networks to show: the dense one, and all at the smallest budget that most met."""
    dense = [s for s in subjects if s.place.method == DENSE]
    pruned = [s for s in subjects if s.place.method != DENSE]
    by_budget: dict[str, list[Subject]] = {}
    for subject in pruned:
        by_budget.setdefault(subject.place.budget, []).append(subject)
    if not by_budget:
        return dense
    most = max(map(len, by_budget.values()))
    full = [group for group in by_budget.values() if len(group) == most]
    return [*dense, *min(full, key=_cost)]


def _cost(group: Sequence[Subject]) -> float:
    return fmean(subject.cell.macs.get("paper", 0) for subject in group)


def _worst_and_middle(scores: Sequence[dict[str, float | None]]) -> dict[str, str]:
    """Return the names of two pictures, or one if there is no other."""
    means: dict[str, float] = {}
    for name in scores[0] if scores else ():
        values = [one.get(name) for one in scores]
        known = [value for value in values if value is not None]
        if len(known) == len(values):
            means[name] = fmean(known)
    ordered = sorted(means, key=lambda name: (means[name], name))
    if not ordered:
        return {}
    middle = ordered[len(ordered) // 2]
    return {"worst": ordered[0]} | ({"middle": middle} if middle != ordered[0] else {})


def _scene(
    title: str, network: str, data: str, pair: Pair, shown: Sequence[Shown], scale: int
) -> Scene:
    degraded, clean = load_pair(pair, scale)
    restored = [to_uint8(restore(one.network, degraded).cpu()) for one in shown]
    top, left = most_different(restored, clean)
    height, width = clean.shape[1:]

    def crop(image: Tensor) -> str:
        return _data_uri(image[:, top : top + SIDE, left : left + SIDE], "crop.png")

    plain = resize(degraded, scale) if scale > 1 else degraded
    scores = [one.subject.cell.pictures[data][pair.name] or 0.0 for one in shown]
    pruned = [s for s, one in zip(scores, shown, strict=True) if one.subject.place.method != DENSE]
    crops = [
        Crop("Original", "", crop(clean)),
        Crop("Bicubic" if scale > 1 else "Degraded", "", crop(plain)),
    ]
    for one, image, psnr in zip(shown, restored, scores, strict=True):
        best = len(pruned) > 1 and one.subject.place.method != DENSE and psnr == max(pruned)
        crops.append(Crop(_name(one.subject), f"{psnr:.2f} dB", crop(image), best))
    box = (left / width, top / height, min(SIDE, width) / width, min(SIDE, height) / height)
    percent = tuple(round(100 * share, 2) for share in box)
    whole, size = _thumb(clean), (int(height), int(width))
    return Scene(title, network, data, pair.name, whole, size, percent, tuple(crops))


def most_different(restored: Sequence[Tensor], clean: Tensor) -> tuple[int, int]:
    """Return top and left of the crop in which the errors of networks differ most.

    Of a single network, where its error is largest.
    """
    errors = torch.stack([(one.double() - clean.double()).mean(0) for one in restored])
    window = min(SIDE, errors.shape[1]), min(SIDE, errors.shape[2])
    # The variance: of an error that is the same everywhere nothing is to be seen in a crop.
    firsts, seconds = (F.avg_pool2d(e.unsqueeze(1), window, STRIDE) for e in (errors, errors**2))
    means = (seconds - firsts**2).squeeze(1)
    worth = means.amax(0) - means.amin(0) if len(restored) > 1 else means[0]
    row, column = divmod(int(worth.argmax()), worth.shape[1])
    return row * STRIDE, column * STRIDE


def _name(subject: Subject) -> str:
    place = subject.place
    budget = "" if place.method == DENSE else place.budget
    return " ".join(word for word in (title_of(place.label), place.setting, budget) if word)


def _thumb(clean: Tensor) -> str:
    """Return the whole picture, small."""
    longest = max(clean.shape[1:])
    small = clean if longest <= THUMB else resize(clean, Fraction(THUMB, longest))
    return _data_uri(small, "whole.webp", 80)


def _data_uri(image: Tensor, name: str, quality: int | None = None) -> str:
    content = encode(Path(name), image.permute(1, 2, 0).contiguous().numpy(), quality)
    kind = Path(name).suffix.removeprefix(".")
    return f"data:image/{kind};base64,{base64.b64encode(content).decode()}"
