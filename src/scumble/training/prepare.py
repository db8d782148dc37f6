"""From a recipe to everything that a run uses."""

import hashlib
import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import scumble.zoo
from scumble.checkpoint import load
from scumble.core.budget import Budget
from scumble.core.pattern import Pattern
from scumble.data.crops import CropPlan
from scumble.data.loaders import Loader, ResidentLoader, Share, ThreadedLoader
from scumble.data.photos import Skipped, check_pairs, find_pairs, load_pair, split
from scumble.data.store import PictureStore
from scumble.errors import CheckpointError, DataError, RecipeError
from scumble.evaluate import restore
from scumble.methods import METHODS, SLS, Method, OneShot, Pruning, sparsify
from scumble.metrics.protocols import PROTOCOLS, Protocol
from scumble.models import NetworkSpec, spec_of
from scumble.nn.gate_table import LearnedGates
from scumble.nn.tracing import trace
from scumble.recipe import PruneSection, Recipe
from scumble.registry import unknown_name
from scumble.training.ema import Ema
from scumble.training.log import Log
from scumble.training.step import TrainStep
from scumble.training.team import Team

logger = logging.getLogger(__name__)

# The same photos are held out in every run, whatever its seed: runs can be compared.
SPLIT_SEED = 0

# Photos that cannot be used are named up to this many.
MOST_TOLD = 10

PRECISION = {"fp32": None, "bf16": torch.bfloat16}


@dataclass(frozen=True)
class Prepared:
    """What a run uses."""

    step: TrainStep
    loader: Loader
    validation: Sequence[tuple[Tensor, Tensor]]  # middles of the validation photos
    protocol: Protocol
    log: Log
    dense_macs: tuple[int, int]  # of the prunable layers, and of the whole network
    photos: str  # a digest of the names and sizes of the training photos
    left_out: Sequence[Skipped]  # photos that could not be used

    def gmacs(self, kept: float) -> float:
        """Return the cost of the whole network with that share of the prunable MACs kept."""
        prunable, whole = self.dense_macs
        return (whole - (1 - kept) * prunable) / 1e9

    def averaged(self) -> nn.Module:
        """Return the network to be judged and kept: with averaged weights, if there are any."""
        network, ema = self.step.network, self.step.ema
        return network if ema is None else ema.averaged(network)

    def score(self, network: nn.Module) -> float:
        """Return the mean PSNR on the validation photos."""
        scale = self.protocol.scale
        training = network.training
        network.eval()
        scores = [
            self.protocol.score(restore(network, degraded, scale), clean)["psnr"]
            for degraded, clean in self.validation
        ]
        network.train(training)
        return fmean(scores)


def prepare(recipe: Recipe, team: Team, folder: Path) -> Prepared:
    """Return everything that the recipe's run uses; what cannot work is said now."""
    train = recipe.train
    torch.manual_seed(train.seed)
    spec = NetworkSpec.of(recipe.network.name, **recipe.network.arguments)
    scale = spec.arguments["scale"]
    network = starting_network(spec, recipe.network.start)
    macs = (0, 0)
    if recipe.prune is not None:
        network, macs = _sparse(network, recipe.prune)
    network = network.to(team.device).to(memory_format=torch.channels_last)  # pyright: ignore
    store, validation, left_out = _photos(recipe, scale, folder)
    plan = CropPlan(store.sizes, recipe.data.patch, train.seed)
    share = Share(plan, recipe.data.patch, scale, train.batch, team.rank, team.size)
    if team.device.type == "cuda":
        loader: Loader = ResidentLoader(store, share, team.device)
    else:
        loader = ThreadedLoader(store, share, recipe.data.workers, team.device)
    step = TrainStep(
        network,
        _optimizer(network, recipe, team.device),
        F.l1_loss,
        amp=PRECISION[train.precision],
        forward=team.wrap(network),
        clip=train.clip,
        ema=Ema(network, train.ema) if train.ema else None,
    )
    log = Log(folder, tensorboard=recipe.watch.tensorboard and team.rank == 0)
    return Prepared(
        step, loader, validation, PROTOCOLS[f"sr-y-x{scale}"], log, macs, _digest(store), left_out
    )


def starting_network(spec: NetworkSpec, start: str | None) -> nn.Module:
    """Return the network that a run begins with."""
    if start is None:
        return spec.build()
    foreign = not start.endswith(".safetensors") and start not in scumble.zoo.names()
    try:
        network = load(start, spec.build() if foreign else None)
    except CheckpointError as error:
        raise RecipeError(
            f"network.start: {error}; give a trained network by --set network.start=FILE"
        ) from error
    if spec_of(network) != spec:
        raise RecipeError(
            f"network.start needs to hold {spec}, but {start} holds {spec_of(network)}"
        )
    return network


def check_recipe(recipe: Recipe) -> None:
    """Refuse a recipe whose names or budget cannot work, without looking at files."""
    NetworkSpec.of(recipe.network.name, **recipe.network.arguments)
    if recipe.prune is not None:
        make_method(recipe.prune)


def make_method(section: PruneSection) -> Method:
    """Return the pruning method that a recipe names."""
    if section.method not in METHODS:
        raise unknown_name("method", section.method, METHODS)
    if section.method == "oneshot":
        return OneShot(uniform_pattern(section.m, section.budget))
    return SLS(
        m=section.m,
        budget=section.budget,
        pressure=section.pressure,
        growth=section.growth,
        min_progress=section.min_progress,
        progress=section.progress,
        look_every=section.look_every,
        rerank_every=section.rerank_every,
        check_every=section.check_every,
        ceiling=section.ceiling,
        land=section.land,
    )


def _sparse(network: nn.Module, section: PruneSection) -> tuple[nn.Module, tuple[int, int]]:
    """Return the network that prunes itself, and the dense MACs of its parts and the whole."""
    cost = trace(network, section.size)
    sparse = sparsify(network, make_method(section), section.size, pad_groups=section.pad_groups)
    pruning = sparse.pruning
    assert isinstance(pruning, Pruning)
    prunable = sum(layer.macs for layer in cost.layers if layer.name in pruning.patterns)
    return sparse, (prunable, cost.paper_macs)


def uniform_pattern(m: int, budget: str | float) -> Pattern:
    """Return the pattern that costs exactly a share, the same in every layer."""
    share = Budget.parse(budget).share
    n = None if share is None else share * m
    if n is None or abs(n - round(n)) > 1e-9 or round(n) < 1:
        raise RecipeError(
            f"oneshot keeps the same N of {m} everywhere, and no whole N is {budget} of it; "
            f"give a budget such as 1/{m // 2 or 1}"
        )
    return Pattern(round(n), m)


def _optimizer(network: nn.Module, recipe: Recipe, device: torch.device) -> torch.optim.Optimizer:
    """Return Adam over the weights, and over the scores with a rate of their own."""
    lr = recipe.train.lr
    scores_lr = recipe.prune.scores_lr if recipe.prune and recipe.prune.scores_lr else lr
    scores = {id(p) for p in _scores(network)}
    weights = [p for p in network.parameters() if p.requires_grad and id(p) not in scores]
    groups = [{"params": weights, "times": 1.0}]
    if scores:
        groups.append({"params": _scores(network), "times": scores_lr / lr})
    if device.type != "cuda":
        return torch.optim.Adam(groups, lr=lr)
    # A captured graph reads its learning rates from the device.
    for group in groups:
        group["lr"] = torch.tensor(lr, device=device)
    return torch.optim.Adam(groups, lr=lr, capturable=True, fused=True)


def _scores(network: nn.Module) -> list[nn.Parameter]:
    tables = (module for module in network.modules() if isinstance(module, LearnedGates))
    return [table.scores for table in tables]


def _photos(
    recipe: Recipe, scale: int, folder: Path
) -> tuple[PictureStore, list[tuple[Tensor, Tensor]], list[Skipped]]:
    """Return the training photos, the middles of the validation photos, and what was left out."""
    data = recipe.data
    found = find_pairs(Path(data.photos), scale)
    good, skipped = check_pairs(found, scale, data.patch, data.strict)
    if not good:
        reason = f"; the first: {skipped[0].reason}" if skipped else ""
        raise DataError(f"none of {len(found)} photos in {data.photos} can be used{reason}")
    for skip in skipped[:MOST_TOLD]:
        logger.warning("left out: %s", skip.reason)
    if len(skipped) > MOST_TOLD:
        logger.warning("left out: %d more photos", len(skipped) - MOST_TOLD)
    training, held_out = split(good, data.validation, SPLIT_SEED)
    if not training:
        raise DataError(f"{data.photos} leaves no photo to train on beside the validation")
    limit = int(data.memory_gb * 2**30)
    store = PictureStore(training, scale, limit, folder / "cache", strict=data.strict)
    middles = (_middle(*load_pair(pair, scale), recipe.watch.crop, scale) for pair in held_out)
    return store, list(middles), [*skipped, *store.skipped]


def _digest(store: PictureStore) -> str:
    """Return what changes when a photo comes, goes or gets another size."""
    told = [(pair.name, *size) for pair, size in zip(store.pairs, store.sizes, strict=True)]
    return hashlib.sha256(json.dumps(told).encode()).hexdigest()


def _middle(degraded: Tensor, clean: Tensor, side: int, scale: int) -> tuple[Tensor, Tensor]:
    """Return the middle of a pair, at most ``side`` high and wide before scaling."""
    height, width = (min(side, extent) for extent in degraded.shape[1:])
    top, left = (degraded.shape[1] - height) // 2, (degraded.shape[2] - width) // 2
    small = degraded[:, top : top + height, left : left + width]
    rows = slice(top * scale, (top + height) * scale)
    columns = slice(left * scale, (left + width) * scale)
    return small, clean[:, rows, columns]
