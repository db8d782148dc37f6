"""From a recipe to everything that a run uses."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

from scumble.checkpoint import load, read_info
from scumble.core.budget import Budget
from scumble.core.pattern import Pattern
from scumble.data.crops import CropPlan
from scumble.data.loaders import Loader, ResidentLoader, Share, ThreadedLoader
from scumble.data.photos import Skipped
from scumble.errors import CheckpointError, RecipeError
from scumble.methods import METHODS, SLS, Filter, Method, OneShot, Pruning, SrSte, sparsify
from scumble.metrics.protocols import PROTOCOLS, Protocol
from scumble.models import NetworkSpec, spec_of
from scumble.nn.gate_table import LearnedGates
from scumble.nn.surgery import patterns
from scumble.nn.tracing import trace
from scumble.recipe import PruneSection, Recipe
from scumble.registry import unknown_name
from scumble.scoring import mean_score, restore
from scumble.training.ema import Ema
from scumble.training.log import Log
from scumble.training.photos import Middle, Shelf, decode_photos
from scumble.training.step import TrainStep
from scumble.training.teacher import read_teacher
from scumble.training.team import Team

PRECISION = {"fp32": None, "bf16": torch.bfloat16}


@dataclass(frozen=True)
class Prepared:
    """What a run uses."""

    step: TrainStep
    loader: Loader
    validation: Sequence[Middle]  # of the photos held out; only the first process has them
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

    def score(self, network: nn.Module) -> float | None:
        """Return the mean PSNR on the validation photos; None without any."""
        training = network.training
        network.eval()
        scores = [
            self.protocol.psnr(restore(network, degraded), clean)
            for degraded, clean in self.validation
        ]
        network.train(training)
        return mean_score(scores)


def prepare(recipe: Recipe, team: Team, folder: Path, shelf: Shelf | None = None) -> Prepared:
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
    teacher = read_teacher(train, scale, team.device)
    photos = decode_photos(recipe, scale, folder, team, shelf)
    store = photos.store
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
        teacher=teacher,
    )
    log = Log(folder, tensorboard=recipe.watch.tensorboard and team.rank == 0)
    return Prepared(
        step,
        loader,
        photos.middles,
        PROTOCOLS[f"sr-y-x{scale}"],
        log,
        macs,
        photos.digest,
        photos.left_out,
    )


def starting_network(spec: NetworkSpec, start: str | None) -> nn.Module:
    """Return the network that a run begins with."""
    if start is None:
        return spec.build()
    try:
        network = load(start, None if _says_what_it_is(start) else spec.build())
    except CheckpointError as error:
        raise RecipeError(
            f"network.start: {error}; give a trained network by --set network.start=FILE"
        ) from error
    found = spec_of(network)
    assert found is not None
    if found != spec:
        raise RecipeError(
            f"network.start needs to hold {_beside(spec, found)}, "
            f"but {start} holds {_beside(found, spec)}"
        )
    if patterns(network):
        raise RecipeError(
            f"network.start needs to hold a dense network, but {start} is pruned already; "
            f"give the one that it came from"
        )
    return network


def _says_what_it_is(start: str) -> bool:
    """Return whether a file names the network that it holds, as those of others do not."""
    try:
        return read_info(start).network is not None
    except CheckpointError:
        return False


def _beside(spec: NetworkSpec, other: NetworkSpec) -> str:
    """Return a spec in words that tell it from another."""
    mine, theirs = spec.other_arguments, other.other_arguments
    differing = [f"{key}={mine[key]}" for key in mine if mine[key] != theirs.get(key)]
    if spec.name != other.name or not differing:
        return str(spec)
    return f"{spec} with {', '.join(differing)}"


def check_recipe(recipe: Recipe) -> None:
    """Refuse a recipe whose names or budget cannot work, without looking at files."""
    NetworkSpec.of(recipe.network.name, **recipe.network.arguments)
    if recipe.prune is not None:
        make_method(recipe.prune)


def make_method(section: PruneSection) -> Method:
    """Return the pruning method that a recipe names."""
    if section.method not in METHODS:
        raise unknown_name("method", section.method, METHODS)
    match section.method:
        case "oneshot":
            return OneShot(uniform_pattern(section))
        case "sr-ste":
            return SrSte(uniform_pattern(section), section.decay)
        case "filter":
            return Filter(section.budget)
        case _:
            return _sls(section)


def _sls(section: PruneSection) -> SLS:
    return SLS(
        m=section.m,
        budget=section.budget,
        pressure=section.pressure,
        growth=section.growth,
        min_progress=section.min_progress,
        progress=section.progress,
        look_every=section.look_every,
        anneal=section.anneal,
        ordered=section.ordered,
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
    return sparse, (pruning.dense, cost.paper_macs)


def uniform_pattern(section: PruneSection) -> Pattern:
    """Return the pattern that costs exactly a share, the same in every layer."""
    m, budget = section.m, section.budget
    share = Budget.parse(budget).share
    n = None if share is None else share * m
    if n is None or abs(n - round(n)) > 1e-9 or round(n) < 1:
        raise RecipeError(
            f"{section.method} keeps the same N of {m} everywhere, and no whole N is {budget} of "
            f"it; give a budget such as 1/{m // 2 or 1}"
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
