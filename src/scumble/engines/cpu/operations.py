"""The table from operators of PyTorch to operations of the graph."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import cast

from scumble.engines.cpu.calls import Call, Unsupported
from scumble.engines.cpu.exported import Constant
from scumble.engines.cpu.origins import Folded, Held, Origin, PerChannel
from scumble.engines.cpu.resizing import resize
from scumble.engines.graph import (
    Activation,
    Add,
    Affine,
    Channels,
    Concat,
    Conv,
    GlobalMean,
    Multiply,
    Node,
    PixelShuffle,
    PixelUnshuffle,
    Pool,
)


def _conv(call: Call) -> list[Node]:
    place = call.place("weight")
    if call["groups"] != 1:
        raise Unsupported(f"{place} is a convolution of {call['groups']} groups; the engine runs 1")
    if any(step != 1 for step in call["dilation"]):
        raise Unsupported(
            f"{place} is a convolution of dilation {max(call['dilation'])}; the engine runs 1"
        )
    weight, bias = call.constant("weight"), call.constant("bias")
    if weight is None or (bias is None and call["bias"] is not None):
        raise Unsupported(f"{place} is a convolution whose weight depends on the picture")
    out_channels, in_channels, height, width = weight.value.shape
    kernel = (height, width)
    conv = Conv(
        in_channels,
        out_channels,
        kernel,
        _pair(call["stride"]),
        _padding(call["padding"], kernel, place),
        call.tensor(_held(weight)),
        None if bias is None else call.tensor(_held(bias)),
        None,
    )
    return [call.node(conv, call.source("input"))]


def _padding(padding: str | Sequence[int], kernel: tuple[int, int], place: str) -> tuple[int, int]:
    if padding == "valid":
        return (0, 0)
    if padding != "same":
        return _pair(cast(Sequence[int], padding))
    if not all(side % 2 for side in kernel):
        raise Unsupported(f"{place} is a convolution padded by more on one side than on the other")
    return (kernel[0] // 2, kernel[1] // 2)


def _activation(kind: str) -> Callable[[Call], list[Node]]:
    def translate(call: Call) -> list[Node]:
        slope = float(call.get("negative_slope", 0.0))
        activation = Activation(kind, slope)  # pyright: ignore[reportArgumentType]
        return [call.node(activation, call.source("self"))]

    return translate


def _silu(call: Call) -> list[Node]:
    gate = call.node(Activation("sigmoid"), call.source("self"), part="gate")
    return [gate, call.node(Multiply(), call.source("self"), gate.name)]


def _prelu(call: Call) -> list[Node]:
    """Give what is above zero plus what is below, times the slope of its channel."""
    slope = _per_channel(call, "self", "weight", factor=-1.0)
    minus = PerChannel(-1.0, call.channels)
    x = call.source("self")
    above = call.node(Activation("relu"), x, part="above")
    turned = call.node(_affine(call, minus, part="turned"), x, part="turned")
    below = call.node(Activation("relu"), turned.name, part="below")
    scaled = call.node(_affine(call, slope), below.name, part="scaled")
    return [above, turned, below, scaled, call.node(Add(), above.name, scaled.name)]


def _sum(first: str, second: str, sign: int = 1) -> Callable[[Call], list[Node]]:
    """Translate ``first + sign * alpha * second``, where ``alpha`` belongs to ``other``."""

    def translate(call: Call) -> list[Node]:
        alpha = call.get("alpha", 1)
        factors = {first: 1.0, second: 1.0}
        factors["self" if first == "other" else "other"] = sign * float(alpha)
        return _weighted(call, factors)

    return translate


def _weighted(call: Call, factors: dict[str, float]) -> list[Node]:
    """Translate a sum of one or two values, each times a number, and of constants."""
    values = [key for key in factors if call.is_value(key)]
    scales = {key: PerChannel(factors[key], call.channels) for key in values if factors[key] != 1}
    if len(values) == 2:
        call.check_alike(*values)
        sources = {key: call.source(key) for key in values}
        scaled: list[Node] = []
        for key, scale in scales.items():
            scaled.append(call.node(_affine(call, scale, part=key), sources[key], part=key))
            sources[key] = scaled[-1].name
        return [*scaled, call.node(Add(), *sources.values())]
    (value,) = values
    shifts = [_per_channel(call, value, key, factors[key]) for key in factors if key != value]
    affine = _affine(call, scales.get(value), next(iter(shifts), None))
    return [call.node(affine, call.source(value))]


def _affine(
    call: Call, scale: Origin | None = None, shift: Origin | None = None, part: str = ""
) -> Affine:
    return Affine(
        None if scale is None else call.tensor(scale, f"{part}:scale".strip(":")),
        None if shift is None else call.tensor(shift, f"{part}:shift".strip(":")),
    )


def _mul(call: Call) -> list[Node]:
    values = [key for key in ("self", "other") if call.is_value(key)]
    if len(values) == 2:
        call.check_alike(*values)
        return [call.node(Multiply(), *map(call.source, values))]
    (constant,) = {"self", "other"} - {*values}
    scale = _per_channel(call, values[0], constant)
    return [call.node(_affine(call, scale=scale), call.source(values[0]))]


def _div(call: Call) -> list[Node]:
    if not call.is_value("self") or call.is_value("other") or call.get("rounding_mode", None):
        raise call.no_counterpart()
    scale = replace(_per_channel(call, "self", "other"), divides=True)
    return [call.node(_affine(call, scale=scale), call.source("self"))]


def _batch_norm(call: Call) -> list[Node]:
    names = ("weight", "bias", "running_mean", "running_var")
    weight, bias, mean, variance = (call.constant(name) for name in names)
    if call.get("training", False) or mean is None or variance is None:
        raise Unsupported(f"{call.operator} takes mean and variance from the picture")
    scale = Folded(
        "scale",
        call.channels,
        None if weight is None else _held(weight),
        None if bias is None else _held(bias),
        _held(mean),
        _held(variance),
        call["eps"],
    )
    return [call.node(_affine(call, scale, replace(scale, part="shift")), call.source("input"))]


def _cat(call: Call) -> list[Node]:
    if call["dim"] not in (1, -3):
        raise Unsupported(f"{call.operator} along dimension {call['dim']}, not along the channels")
    return [call.node(Concat(), *call.sources("tensors"))]


def _slice(call: Call) -> list[Node]:
    channels = slice(call["start"], call["end"])
    _along_channels(call, (call["start"], call["end"], call["step"]))
    if call["step"] != 1:
        raise Unsupported(f"{call.operator} takes every {call['step']}th channel only")
    start, stop, _ = channels.indices(call.channels_of("self"))
    return [call.node(Channels(start, stop), call.source("self"))]


def _narrow(call: Call) -> list[Node]:
    _along_channels(call, (call["start"], call["length"]))
    start = int(call["start"]) % call.channels_of("self")
    return [call.node(Channels(start, start + call["length"]), call.source("self"))]


def _along_channels(call: Call, numbers: Iterable[object]) -> None:
    fixed = all(number is None or isinstance(number, int) for number in numbers)
    if call["dim"] not in (1, -3) or not fixed:
        raise Unsupported(f"{call.operator} cuts the picture, not its channels")


def _getitem(call: Call) -> list[Node]:
    """Translate one result of an operator of several."""
    several = call.call_behind(0)
    match several.short:
        case "split" | "split_with_sizes" | "chunk" | "tensor_split" if several["dim"] in (1, -3):
            counts = [part.shape[1] for part in several.meta]
            start = sum(counts[: call.item])
            channels = Channels(start, start + counts[call.item])
            return [call.node(channels, several.source("self"))]
        case "_native_batch_norm_legit_no_training" if call.item == 0:
            return [replace(node, name=call.name) for node in _batch_norm(several)]
        case _:
            raise several.no_counterpart()


def _unsqueeze(call: Call) -> list[Node]:
    """Translate a channel that was taken out and becomes a picture of its own."""
    inner = call.call_behind(0)
    index = inner["index"] if inner.short == "select" else None
    if inner.short == "getitem":
        index, inner = inner.item, inner.call_behind(0)
    if index is None or inner.short not in ("select", "unbind") or inner["dim"] not in (1, -3):
        raise call.no_counterpart()
    if call["dim"] not in (1, -3):
        raise call.no_counterpart()
    start = int(index) % inner.channels_of("self")
    return [call.node(Channels(start, start + 1), inner.source("self"))]


def _shuffle(call: Call) -> list[Node]:
    return [call.node(PixelShuffle(call["upscale_factor"]), call.source("self"))]


def _unshuffle(call: Call) -> list[Node]:
    return [call.node(PixelUnshuffle(call["downscale_factor"]), call.source("self"))]


def _pool(kind: str) -> Callable[[Call], list[Node]]:
    def translate(call: Call) -> list[Node]:
        kernel, padding = _pair(call["kernel_size"]), _pair(call["padding"])
        stride = _pair(call["stride"] or call["kernel_size"])
        counts_less = any(padding) and not call.get("count_include_pad", True)
        plain = _pair(call.get("dilation", 1)) == (1, 1) and not call["ceil_mode"]
        if not plain or counts_less or call.get("divisor_override", None) is not None:
            raise Unsupported(f"{call.operator} pools in a way that the graph does not know")
        pool = Pool(kind, kernel, stride, padding)  # pyright: ignore[reportArgumentType]
        return [call.node(pool, call.source("self"))]

    return translate


def _adaptive_mean(call: Call) -> list[Node]:
    if any(side != 1 for side in call["output_size"]):
        raise Unsupported(f"{call.operator} takes means of parts of the picture")
    return [call.node(GlobalMean(), call.source("self"))]


def _mean(call: Call) -> list[Node]:
    if {dim % 4 for dim in call.get("dim", None) or ()} != {2, 3}:
        raise Unsupported(f"{call.operator} takes a mean other than over height and width")
    return [call.node(GlobalMean(), call.source("self"))]


def _pair(numbers: int | Sequence[int]) -> tuple[int, int]:
    several = [numbers] if isinstance(numbers, int) else list(numbers)
    return (several[0], several[-1])


def _held(constant: Constant) -> Held:
    return Held(constant.name, tuple(constant.value.shape))


def _per_channel(call: Call, value: str, key: str, factor: float = 1.0) -> PerChannel:
    """Return a number, or a tensor with one number for each channel of a value or one for all."""
    constant, channels = call.constant(key), call.channels_of(value)
    if constant is None:
        if not isinstance(call[key], int | float):
            raise call.no_counterpart()
        return PerChannel(float(call[key]), channels, factor)
    shape = tuple(constant.value.shape)
    only_channels = (1,) * (3 - len(shape)) + shape if len(shape) < 4 else shape[1:]
    if key == "weight":  # of a PReLU, which has one number per channel and no more dimensions
        only_channels = (*shape, 1, 1)
    if only_channels not in ((channels, 1, 1), (1, 1, 1)):
        raise Unsupported(f"{call.operator} with a constant of shape {shape}, not one per channel")
    return PerChannel(_held(constant), channels, factor)


TRANSLATIONS: dict[str, Callable[[Call], list[Node]]] = {
    "_native_batch_norm_legit_no_training": _batch_norm,
    "adaptive_avg_pool2d": _adaptive_mean,
    "add": _sum("self", "other"),
    "avg_pool2d": _pool("mean"),
    "batch_norm": _batch_norm,
    "cat": _cat,
    "concat": _cat,
    "concatenate": _cat,
    "conv2d": _conv,
    "div": _div,
    "getitem": _getitem,
    "leaky_relu": _activation("leaky_relu"),
    "max_pool2d": _pool("max"),
    "mean": _mean,
    "mul": _mul,
    "narrow": _narrow,
    "neg": lambda call: _weighted(call, {"self": -1.0}),
    "pixel_shuffle": _shuffle,
    "pixel_unshuffle": _unshuffle,
    "prelu": _prelu,
    "relu": _activation("relu"),
    "rsub": _sum("other", "self", sign=-1),
    "sigmoid": _activation("sigmoid"),
    "silu": _silu,
    "slice": _slice,
    "sub": _sum("self", "other", sign=-1),
    "unsqueeze": _unsqueeze,
    "upsample_bilinear2d": lambda call: resize(call, "bilinear"),
    "upsample_nearest2d": lambda call: resize(call, "nearest"),
}


def translate(call: Call) -> list[Node]:
    """Return the nodes that do what a call does; the last one has the call's name."""
    known = TRANSLATIONS.get(call.short)
    if known is None:
        raise call.no_counterpart()
    call.check_gives_picture()
    return known(call)
