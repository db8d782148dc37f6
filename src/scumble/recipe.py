"""One file says everything that a run needs."""

import copy
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_args

import yaml
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from scumble.core.budget import Budget
from scumble.errors import BudgetError, RecipeError
from scumble.registry import unknown_name


class Section(BaseModel):
    """A part of a recipe: frozen, and strict about its keys."""

    model_config = ConfigDict(frozen=True, extra="forbid")


SomeSection = TypeVar("SomeSection", bound=Section)


def _readable_budget(given: str | float) -> str | float:
    try:
        Budget.parse(given)
    except BudgetError as error:
        raise ValueError(str(error)) from error
    return given


Side = Annotated[int, Field(ge=1)]
Share = Annotated[float, Field(gt=0, lt=1)]


class NetworkSection(Section):
    """The network, and the weights it starts from."""

    name: str = Field(default="carn-x4", description="network and scale, such as carn-x4")
    arguments: dict[str, int] = Field(default={}, description="other arguments of the network")
    start: str | None = Field(
        default=None, description="weights to start from: a file, or a zoo name"
    )


class DataSection(Section):
    """The photos."""

    photos: str = Field(description="folder of photos, or one laid out as HR and LR pairs")
    patch: int = Field(
        default=48, ge=8, le=1024, description="side of a training crop, before scaling"
    )
    validation: float = Field(
        default=0.02, ge=0, lt=1, description="share of the photos to validate on"
    )
    smaller: tuple[Share, ...] = Field(
        default=(), description="train on smaller copies too: [0.75, 0.5] of height and width"
    )
    memory_gb: float = Field(
        default=4.0, gt=0, description="decoded photos beyond this go to a file"
    )
    workers: int = Field(
        default=2, ge=1, le=64, description="threads that prepare batches on the CPU"
    )
    strict: bool = Field(default=False, description="stop at the first photo that cannot be used")


class TrainSection(Section):
    """How to train."""

    steps: int = Field(default=300_000, ge=1)
    batch: int = Field(default=16, ge=1, description="crops per step and process")
    lr: float = Field(default=1e-4, gt=0)
    schedule: Literal["halve", "cosine"] = Field(default="halve", description="halve: once, at 2/3")
    warmup: int = Field(default=0, ge=0, description="steps over which lr rises from nothing")
    clip: float | None = Field(default=None, gt=0, description="largest norm of the gradient")
    ema: float = Field(
        default=0.0, ge=0, lt=1, description="decay of the averaged weights; 0: none"
    )
    precision: Literal["fp32", "bf16"] = "fp32"
    fast: bool = Field(
        default=True, description="on a GPU: compile, capture one CUDA graph per step"
    )
    teacher: str | None = Field(
        default=None, description="learn from a trained network, too: a file, or a zoo name"
    )
    teaching: float = Field(
        default=0.5, gt=0, le=1, description="share of the teacher in the loss; the rest: photos"
    )
    seed: int = Field(default=0, ge=0)


class PruneSection(Section):
    """How far to prune, and how hard to push."""

    method: str = Field(default="sls", description="sls, oneshot, sr-ste or filter")
    m: int = Field(default=32, ge=2, le=256, description="group size")
    budget: Annotated[str | float, AfterValidator(_readable_budget)] = Field(
        default="1/2", description="what may remain: 1/8, 12.5%, 13.02e9 (MACs)"
    )
    size: tuple[Side, Side] = Field(
        default=(180, 320), description="height, width of the budget's picture"
    )
    pad_groups: bool = Field(default=False, description="prune layers of any width")
    pressure: float = Field(default=1e-10 / 255, gt=0, description="first loss per MAC of one crop")
    growth: float = Field(default=1.1, gt=1, description="of the pressure, when pruning stalls")
    min_progress: float = Field(default=0.2, ge=0, description="up to this, pruning stalls")
    progress: Literal["ratio", "share"] = Field(
        default="ratio", description="of dense/kept, or kept/dense"
    )
    look_every: int = Field(default=2000, ge=1, description="steps between looks at the progress")
    anneal: bool = Field(default=True, description="let the pressure grow; false: it stays")
    ordered: bool = Field(
        default=True, description="a larger weight outlives a smaller one; false: scores decide"
    )
    rerank_every: int = Field(
        default=1000, ge=0, description="steps between rankings of the weights; 0: never"
    )
    check_every: int = Field(default=20, ge=1, description="steps between looks at the budget")
    ceiling: float = Field(default=1.03, gt=0.5, description="largest score")
    scores_lr: float | None = Field(
        default=None, gt=0, description="learning rate of the scores; that of the weights if none"
    )
    land: bool = Field(default=True, description="spend what the last step saved below the budget")
    decay: float = Field(
        default=2e-4,
        ge=0,
        description="of weights that do not run (sr-ste)",
    )


class WatchSection(Section):
    """What to report and keep, and how often."""

    log_every: int = Field(default=100, ge=1, description="steps")
    validate_every: int = Field(default=1000, ge=1, description="steps")
    save_every: int = Field(default=1000, ge=1, description="steps between states to resume from")
    crop: int = Field(
        default=128, ge=16, description="side of the middle that is validated, before scaling"
    )
    tensorboard: bool = False


class Recipe(Section):
    """A run from start to end."""

    network: NetworkSection = NetworkSection()
    data: DataSection
    train: TrainSection = TrainSection()
    prune: PruneSection | None = None
    watch: WatchSection = WatchSection()

    def to_yaml(self) -> str:
        """Return the recipe as a file holds it, with every default written out."""
        return yaml.safe_dump(self.model_dump(mode="json"), sort_keys=False)


class _StrictLoader(yaml.SafeLoader):
    """YAML in which no key may appear twice, and 1e-4 is a number."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        twice = {str(key) for key in keys if keys.count(key) > 1}
        if twice:
            raise RecipeError(f"a key may appear once in a section, got {min(twice)} twice")
        return super().construct_mapping(node, deep)


def recipe_names() -> list[str]:
    """Return the names of the recipes that come with the package."""
    folder = files("scumble") / "recipes"
    return sorted(
        e.name.removesuffix(".yaml") for e in folder.iterdir() if e.name.endswith(".yaml")
    )


def recipe_text(name: str) -> str:
    """Return a recipe file of ours as it is written."""
    if name not in recipe_names():
        raise unknown_name("recipe", name, recipe_names())
    return (files("scumble") / "recipes" / f"{name}.yaml").read_text()


def read_recipe(source: str | Path, changes: Sequence[str] = ()) -> Recipe:
    """Return the recipe in a file, or one of ours by name, with ``section.key=value`` changes."""
    content = recipe_content(source)
    try:
        return change_recipe(content, changes)
    except RecipeError as error:
        raise RecipeError(f"{source}: {error}") from error


def recipe_content(source: str | Path) -> dict[str, Any]:
    """Return what the recipe in a file, or one of ours by name, says as plain data."""
    path = Path(source)
    text = read_yaml_file(path, "recipe") if names_file(path) else recipe_text(str(source))
    return parse_sections(text, str(source), "recipe")


def names_file(path: Path) -> bool:
    """Return whether a file is meant, and not one of ours by name."""
    return path.suffix in (".yaml", ".yml") or path.exists()


def read_yaml_file(path: Path, kind: str) -> str:
    """Return the text of a file that should hold a ``kind``."""
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise RecipeError(f"{path} cannot be read as a {kind}: {reason}") from error


def parse_sections(text: str, source: str, kind: str) -> dict[str, Any]:
    """Return the sections of keys in a YAML text from ``source``."""
    try:
        content = _parse(text)
        if not isinstance(content, dict):
            got = "nothing" if content is None else f"a {type(content).__name__}"
            raise RecipeError(f"a {kind} is sections of keys, got {got}")
        return content
    except RecipeError as error:
        raise RecipeError(f"{source}: {error}") from error


def change_recipe(content: dict[str, Any], changes: Sequence[str]) -> Recipe:
    """Return the recipe in plain data after ``section.key=value`` changes to it."""
    content = copy.deepcopy(content)
    for change in changes:
        _change(content, change)
    return make_recipe(content)


def make_recipe(content: Mapping[str, Any]) -> Recipe:
    """Return the recipe in plain data, or say which key or value is wrong."""
    return make_section(Recipe, content)


def in_full(written: dict[str, Any]) -> dict[str, Any]:
    """Return a resolved recipe with the defaults of keys that are younger than it."""
    try:
        return make_recipe(written).model_dump(mode="json")
    except RecipeError:
        return written


def make_section(kind: type[SomeSection], content: Mapping[str, Any]) -> SomeSection:
    """Return the section in plain data, or say which key or value is wrong."""
    try:
        return kind.model_validate(content)
    except ValidationError as error:
        sentences = (_sentence(kind, e["loc"], e) for e in error.errors())
        raise RecipeError("; ".join(sentences)) from error


def recipe_schema() -> dict[str, Any]:
    """Return the JSON schema of a recipe."""
    return Recipe.model_json_schema()


def _parse(text: str) -> Any:
    try:
        return yaml.load(text, _StrictLoader)
    except yaml.YAMLError as error:
        problem = " ".join(str(error).split())
        raise RecipeError(f"not valid YAML: {problem}") from error


def _change(content: dict[str, Any], change: str) -> None:
    """Apply ``section.key=value``."""
    place, found, value = change.partition("=")
    *sections, key = place.strip().split(".")
    if not found or not key:
        raise RecipeError(f"a change is written section.key=value, got {change!r}")
    for section in sections:
        inside = content.get(section) or {}
        if not isinstance(inside, dict):
            raise RecipeError(f"{section} is a value, not a section, in {change!r}")
        content[section] = content = dict(inside)
    content[key] = _number_or(_parse(value))


def _number_or(value: Any) -> Any:
    """Return 1e-4 as the number that YAML takes for text."""
    try:
        return float(value) if isinstance(value, str) and "e" in value.lower() else value
    except ValueError:
        return value


def _sentence(kind: type[Section], place: tuple[int | str, ...], error: Mapping[str, Any]) -> str:
    """Return one fault of a section in words."""
    name = ".".join(map(str, place))
    if error["type"] == "extra_forbidden":
        known = list(_section_at(kind, place[:-1]).model_fields)
        near = get_close_matches(str(place[-1]), known, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(known)}"
        return f"no key named {name}; {hint}"
    if error["type"] == "missing":
        return f"{name} is needed, and not given"
    if error["type"] == "value_error":
        return f"{name}: {error['msg'].removeprefix('Value error, ')}"
    reason = error["msg"].removeprefix("Input ").replace("should", "needs to")
    return f"{name} {reason}, got {error['input']!r}"


def _section_at(kind: type[Section], place: Iterable[int | str]) -> type[Section]:
    """Return the kind of section that stands at a place inside another."""
    for key in place:
        field = kind.model_fields.get(str(key))
        inside = _sections_in(field.annotation) if field else []
        kind = inside[0] if inside else kind
    return kind


def _sections_in(annotation: Any) -> list[type[Section]]:
    """Return the kinds of section that an annotation speaks of."""
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return [annotation]
    return [kind for part in get_args(annotation) for kind in _sections_in(part)]
