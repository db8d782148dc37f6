"""Every operator that the graph expresses, in place too; and why the others stay with PyTorch."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from scumble.engines.cpu.capture import capture
from scumble.engines.graph import Conv, Pool, Resize
from tests.engines.cpu.running import (
    Does,
    captured_same,
    only_graph,
    operations,
    reasons,
    run,
)

CHANNELS = 6


def network(function, **parts):
    """Return a network whose function takes six channels, some of them negative."""
    parts.setdefault("head", nn.Conv2d(3, CHANNELS, 1))
    return Does(lambda self, x: function(self, self.head(x)), **parts)


def norm(**options):
    layer = nn.BatchNorm2d(CHANNELS, **options)
    for tensor in (*layer.parameters(), *layer.buffers()):
        if tensor.is_floating_point():
            nn.init.uniform_(tensor, 0.5, 2)
    return layer


def constant(*shape):
    return nn.Parameter(torch.rand(shape) + 0.5)


EXPRESSED = {
    "relu": (lambda s, x: F.relu(x), ["Activation"]),
    "leaky_relu": (lambda s, x: F.leaky_relu(x, 0.2), ["Activation"]),
    "leaky_relu as it is": (lambda s, x: F.leaky_relu(x), ["Activation"]),
    "sigmoid": (lambda s, x: torch.sigmoid(x), ["Activation"]),
    "silu": (lambda s, x: F.silu(x), ["Activation", "Multiply"]),
    "add": (lambda s, x: x + F.relu(x), ["Activation", "Add"]),
    "add weighted": (lambda s, x: torch.add(x, F.relu(x), alpha=0.3), None),
    "add to itself": (lambda s, x: x + x, ["Add"]),
    "subtract": (lambda s, x: x - F.relu(x), ["Activation", "Affine", "Add"]),
    "subtract weighted": (lambda s, x: torch.sub(x, F.relu(x), alpha=2), None),
    "multiply": (lambda s, x: x * torch.sigmoid(x), ["Activation", "Multiply"]),
    "add a number": (lambda s, x: 0.5 + x, ["Affine"]),
    "add a whole number": (lambda s, x: x + 2, ["Affine"]),
    "subtract a number": (lambda s, x: x - 0.5, ["Affine"]),
    "subtract from a number": (lambda s, x: 0.5 - x, ["Affine"]),
    "subtract from a number, weighted": (lambda s, x: torch.rsub(x, 0.5, alpha=3), ["Affine"]),
    "subtract from a constant": (lambda s, x: s.gain - x, ["Affine"]),
    "multiply by a number": (lambda s, x: x * 0.1, ["Affine"]),
    "divide by a number": (lambda s, x: x / 3, ["Affine"]),
    "negate": (lambda s, x: -x, ["Affine"]),
    "add a constant [1, C, 1, 1]": (lambda s, x: x + s.gain, ["Affine"]),
    "add a constant [C, 1, 1]": (lambda s, x: s.bias + x, ["Affine"]),
    "add a constant []": (lambda s, x: x + s.one, ["Affine"]),
    "add a weighted constant": (lambda s, x: torch.add(x, s.gain, alpha=-2), ["Affine"]),
    "multiply by a constant": (lambda s, x: s.gain * x, ["Affine"]),
    "multiply by a constant of one number": (lambda s, x: x * s.single, ["Affine"]),
    "multiply by a viewed constant": (lambda s, x: x * s.flat.view(1, -1, 1, 1), ["Affine"]),
    "multiply by a computed constant": (lambda s, x: x * (s.gain.exp() + s.bias), ["Affine"]),
    "multiply by what stands in the code": (lambda s, x: x * torch.tensor([0.5]), ["Affine"]),
    "divide by a constant": (lambda s, x: x / s.gain, ["Affine"]),
    "batch norm": (lambda s, x: s.norm(x), ["Affine"]),
    "batch norm without weights": (lambda s, x: s.bare(x), ["Affine"]),
    "prelu": (lambda s, x: s.slopes(x), None),
    "prelu of one slope": (lambda s, x: s.slope(x), None),
    "concat": (lambda s, x: torch.cat([x, F.relu(x), x], 1), ["Activation", "Concat"]),
    "concat from behind": (lambda s, x: torch.concat([x, x], -3), ["Concat"]),
    "chunk": (lambda s, x: x.chunk(4, 1)[2], ["Channels"]),
    "chunks": (lambda s, x: torch.mul(*x.chunk(2, 1)), ["Channels", "Channels", "Multiply"]),
    "split": (lambda s, x: torch.split(x, 4, 1)[1], ["Channels"]),
    "split by counts": (lambda s, x: x.split([1, 2, 3], -3)[1], ["Channels"]),
    "tensor_split": (lambda s, x: torch.tensor_split(x, 4, 1)[1], ["Channels"]),
    "narrow": (lambda s, x: x.narrow(1, 2, 3), ["Channels"]),
    "slice": (lambda s, x: x[:, 1:4], ["Channels"]),
    "slice from behind": (lambda s, x: x[:, -2:], ["Channels"]),
    "slice before the end": (lambda s, x: x[:, :-1], ["Channels"]),
    "select": (lambda s, x: x[:, 2].unsqueeze(1), ["Channels"]),
    "select from behind": (lambda s, x: x.select(1, -1).unsqueeze(-3), ["Channels"]),
    "unbind": (lambda s, x: x.unbind(1)[3].unsqueeze(1), ["Channels"]),
    "pixel shuffle": (lambda s, x: F.pixel_shuffle(torch.cat([x, x], 1), 2), None),
    "pixel unshuffle": (lambda s, x: F.pixel_unshuffle(x, 2), ["PixelUnshuffle"]),
    "max pool": (lambda s, x: F.max_pool2d(x, 3), ["Pool"]),
    "max pool, padded": (lambda s, x: F.max_pool2d(x, (3, 2), (2, 1), (1, 0)), ["Pool"]),
    "mean pool": (lambda s, x: F.avg_pool2d(x, 2), ["Pool"]),
    "mean pool, padded": (lambda s, x: F.avg_pool2d(x, 3, 1, 1), ["Pool"]),
    "mean pool, without padding": (
        lambda s, x: F.avg_pool2d(x, 3, 2, count_include_pad=False),
        ["Pool"],
    ),
    "global mean": (lambda s, x: F.adaptive_avg_pool2d(x, 1), ["GlobalMean"]),
    "mean over pixels": (lambda s, x: x.mean((-1, 2), keepdim=True), ["GlobalMean"]),
    "one pixel for all": (lambda s, x: x * torch.sigmoid(x.mean((2, 3), keepdim=True)), None),
    "one pixel for all, first": (lambda s, x: x.mean((2, 3), keepdim=True) + x, None),
    "nearest": (lambda s, x: F.interpolate(x, scale_factor=2), ["Resize"]),
    "nearest, unevenly": (lambda s, x: F.interpolate(x, scale_factor=(3, 1)), ["Resize"]),
    "bilinear": (lambda s, x: F.interpolate(x, scale_factor=3, mode="bilinear"), ["Resize"]),
    "nearest to a size": (
        lambda s, x: F.interpolate(x, (x.shape[2] * 2, x.shape[3] * 2)),
        ["Resize"],
    ),
    "as large as another": (
        lambda s, x: F.interpolate(F.max_pool2d(x, 3, 2), x.shape[2:], mode="bilinear"),
        ["Pool", "Resize"],
    ),
    "nearest, as large as another": (
        lambda s, x: F.interpolate(F.max_pool2d(x, 3, 2), x.shape[-2:]),
        ["Pool", "Resize"],
    ),
    "one pixel, as large as another": (
        lambda s, x: F.interpolate(F.adaptive_avg_pool2d(x, 1), x.shape[-2:], mode="bilinear"),
        ["GlobalMean", "Resize"],
    ),
    "dropout": (lambda s, x: F.dropout(F.dropout2d(x, 0.3, s.training), 0.5, s.training), []),
    "identity": (lambda s, x: nn.Identity()(x.contiguous().clone().detach()), []),
    "to what it is": (lambda s, x: x.to(torch.float32).float().type_as(x), []),
    "seen as it is": (lambda s, x: x.view(x.shape)[:].expand_as(x), []),
}
IN_PLACE = {
    "relu": (lambda s, x: F.relu(x, inplace=True) + x, ["Activation", "Add"]),
    "leaky_relu": (lambda s, x: F.leaky_relu(x, 0.1, inplace=True) * x, ["Activation", "Multiply"]),
    "silu": (lambda s, x: F.silu(x, inplace=True), ["Activation", "Multiply"]),
    "sigmoid": (lambda s, x: x.sigmoid_(), ["Activation"]),
    "add": (lambda s, x: x.add_(F.relu(x)) + x, ["Activation", "Add", "Add"]),
    "add a number": (lambda s, x: x.add_(1).mul_(2).sub_(0.5).div_(3), ["Affine"] * 4),
    "through another name": (lambda s, x: (x.detach().mul_(2), x)[1], ["Affine"]),
    "between others": (
        lambda s, x: F.max_pool2d(s.norm(F.relu(x, inplace=True)), 3, 1, 1).mul_(s.gain),
        ["Activation", "Affine", "Pool", "Affine"],
    ),
}
CALLS = [
    *((f"{name}", *case) for name, case in EXPRESSED.items()),
    *((f"in place: {name}", *case) for name, case in IN_PLACE.items()),
]


@pytest.mark.parametrize(("function", "expected"), [pytest.param(*c[1:], id=c[0]) for c in CALLS])
def test_the_graph_expresses(function, expected):
    parts = {
        "gain": constant(1, CHANNELS, 1, 1),
        "bias": constant(CHANNELS, 1, 1),
        "flat": constant(CHANNELS),
        "single": constant(1, 1, 1, 1),
        "one": constant(),
        "norm": norm(),
        "bare": norm(affine=False),
        "slopes": nn.PReLU(CHANNELS, init=0.3),
        "slope": nn.PReLU(),
    }
    # Even sides, so that every one of them runs.
    found = operations(captured_same(network(function, **parts), (32, 46), (16, 8)))
    if expected is not None:
        assert found == ["Conv", *expected]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"kernel_size": 1}, ((1, 1), (1, 1), (0, 0))),
        ({"kernel_size": 3, "bias": False}, ((3, 3), (1, 1), (0, 0))),
        ({"kernel_size": (1, 3), "padding": (0, 1)}, ((1, 3), (1, 1), (0, 1))),
        ({"kernel_size": 4, "stride": 2, "padding": 1}, ((4, 4), (2, 2), (1, 1))),
        ({"kernel_size": 5, "stride": (3, 1), "padding": 4}, ((5, 5), (3, 1), (4, 4))),
        ({"kernel_size": (5, 3), "padding": "same"}, ((5, 3), (1, 1), (2, 1))),
        ({"kernel_size": 2, "padding": "valid"}, ((2, 2), (1, 1), (0, 0))),
    ],
)
def test_the_graph_expresses_convolutions(options, expected):
    captured = captured_same(nn.Conv2d(3, 4, **options))
    (node,) = only_graph(captured).graph.nodes
    conv = node.operation
    assert isinstance(conv, Conv)
    assert (conv.in_channels, conv.out_channels) == (3, 4)
    assert (conv.kernel, conv.stride, conv.padding) == expected
    assert (conv.weight, conv.bias) == ("weight", None if "bias" in options else "bias")


def test_a_convolution_may_have_a_weight_that_is_computed():
    conv = torch.nn.utils.parametrizations.weight_norm(nn.Conv2d(3, 4, 3))
    assert operations(captured_same(conv)) == ["Conv"]


def test_a_shared_layer_shares_its_tensors():
    layer = nn.Conv2d(3, 3, 3, padding=1)
    piece = only_graph(captured_same(nn.Sequential(layer, nn.ReLU(), layer)))
    assert len(piece.weights) == 2


def test_a_factor_is_preferred_to_another_value():
    def function(self, x):
        large = F.interpolate(x, scale_factor=2)
        return large + F.interpolate(x, large.shape[2:], mode="bilinear")

    resizes = [node.operation for node in only_graph(capture(network(function))).graph.nodes[1:3]]
    assert resizes == [Resize("nearest", (2, 2)), Resize("bilinear", (2, 2))]


def test_a_pool_moves_by_its_own_size_if_nothing_else_is_said():
    (_, node) = only_graph(capture(network(lambda s, x: F.max_pool2d(x, (3, 2))))).graph.nodes
    assert node.operation == Pool("max", (3, 2), (3, 2), (0, 0))


NONE = "has no counterpart in the graph"
LEFT = {
    "gelu": (lambda s, x: F.gelu(x), f"aten.gelu.default {NONE}"),
    "two": (
        lambda s, x: F.elu(F.gelu(x)),
        f"aten.gelu.default {NONE}; aten.elu.default {NONE}",
    ),
    "the same twice": (lambda s, x: F.gelu(F.gelu(x)), f"aten.gelu.default {NONE}"),
    "groups": (
        lambda s, x: s.grouped(x),
        "grouped is a convolution of 3 groups; the engine runs 1",
    ),
    "dilation": (
        lambda s, x: s.inner(x),
        "inner.0 is a convolution of dilation 2; the engine runs 1",
    ),
    "uneven padding": (
        lambda s, x: s.uneven(x),
        "uneven is a convolution padded by more on one side than on the other",
    ),
    "a weight from the picture": (
        lambda s, x: F.conv2d(x, x.mean((2, 3), keepdim=True)),
        "conv2d_1 is a convolution whose weight depends on the picture",
    ),
    "a quotient": (lambda s, x: x / (F.relu(x) + 1), f"aten.div.Tensor {NONE}"),
    "a quotient of a number": (
        lambda s, x: 1 / (F.relu(x) + 1),
        f"aten.reciprocal.default {NONE}",
    ),
    "a whole quotient": (
        lambda s, x: torch.div(x, 2, rounding_mode="floor"),
        f"aten.div.Tensor_mode {NONE}",
    ),
    "one channel for all": (
        lambda s, x: x * x[:, :1],
        "aten.mul.Tensor combines 6 with 1 channels",
    ),
    "one row for all": (
        lambda s, x: x + F.adaptive_avg_pool2d(x, (1, None)),
        "aten.adaptive_avg_pool2d.default takes means of parts of the picture; "
        "aten.add.Tensor spreads one row or one column over a picture",
    ),
    "a number of the picture": (
        lambda s, x: x * x.mean(),
        "aten.mean.default gives something other than one picture of floats; "
        "aten.mul.Tensor takes something other than one picture of floats",
    ),
    "the mean of everything": (
        lambda s, x: x * torch.mean(x, None, keepdim=True),
        "aten.mean.dim takes a mean other than over height and width; "
        "aten.mul.Tensor combines 6 with 1 channels",
    ),
    "the mean of channels": (
        lambda s, x: x.mean(1, keepdim=True),
        "aten.mean.dim takes a mean other than over height and width",
    ),
    "the mean of pixels as numbers": (
        lambda s, x: x.mean((2, 3)),
        "aten.mean.dim gives something other than one picture of floats",
    ),
    "a number of the picture, spread": (
        lambda s, x: x + x.mean() * torch.ones(1, CHANNELS, 1, 1).exp(),
        "aten.mean.default gives something other than one picture of floats; "
        "aten.mul.Tensor takes something other than one picture of floats",
    ),
    "a constant along a side": (
        lambda s, x: x[:, :, :7, :7] + torch.arange(7.0),
        "aten.slice.Tensor cuts the picture, not its channels; "
        "aten.add.Tensor with a constant of shape (7,), not one per channel",
    ),
    "a constant that adds channels": (
        lambda s, x: x[:, :1] + torch.ones(1, 4, 1, 1).exp(),
        "aten.add.Tensor with a constant of shape (1, 4, 1, 1), not one per channel",
    ),
    "a batch norm of the picture": (
        lambda s, x: s.norm(x),
        "aten.batch_norm.default takes mean and variance from the picture",
    ),
    "concat of rows": (
        lambda s, x: torch.cat([x, x], 2),
        "aten.cat.default along dimension 2, not along the channels",
    ),
    "rows": (lambda s, x: x[:, :, 1:], "aten.slice.Tensor cuts the picture, not its channels"),
    "every other channel": (
        lambda s, x: x[:, ::2],
        "aten.slice.Tensor takes every 2th channel only",
    ),
    "chunks of rows": (lambda s, x: x.chunk(2, 2)[1], f"aten.chunk.default {NONE}"),
    "a row": (
        lambda s, x: x[:, :, 0].unsqueeze(2),
        f"aten.select.int {NONE}; aten.unsqueeze.default {NONE}",
    ),
    "a pool that rounds up": (
        lambda s, x: F.max_pool2d(x, 2, ceil_mode=True),
        "aten.max_pool2d.default pools in a way that the graph does not know",
    ),
    "a pool with holes": (
        lambda s, x: F.max_pool2d(x, 2, dilation=2),
        "aten.max_pool2d.default pools in a way that the graph does not know",
    ),
    "a mean that leaves padding out": (
        lambda s, x: F.avg_pool2d(x, 3, 1, 1, count_include_pad=False),
        "aten.avg_pool2d.default pools in a way that the graph does not know",
    ),
    "a mean with a divisor": (
        lambda s, x: F.avg_pool2d(x, 2, divisor_override=3),
        "aten.avg_pool2d.default pools in a way that the graph does not know",
    ),
    "one and a half times the size": (
        lambda s, x: F.interpolate(x, scale_factor=(2, 1.5)),
        "aten.upsample_nearest2d.vec resizes by 2.0 x 1.5; the graph knows whole factors",
    ),
    "half the size": (
        lambda s, x: F.interpolate(x, scale_factor=0.5, mode="bilinear"),
        "aten.upsample_bilinear2d.vec resizes by 0.5 x 0.5; the graph knows whole factors",
    ),
    "aligned corners": (
        lambda s, x: F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=True),
        f"aten.upsample_bilinear2d.vec with aligned corners {NONE}",
    ),
    "a fixed size": (
        lambda s, x: F.interpolate(x, (20, 30)),
        "aten.upsample_nearest2d.vec resizes to a size that no other value has",
    ),
    "another size": (
        lambda s, x: F.interpolate(x, (x.shape[2] // 2, x.shape[3] + 1)),
        "aten.upsample_nearest2d.vec resizes to a size that no other value has",
    ),
    "bicubic": (
        lambda s, x: F.interpolate(x, scale_factor=2, mode="bicubic"),
        f"aten.upsample_bicubic2d.vec {NONE}",
    ),
    "antialias": (
        lambda s, x: F.interpolate(x, scale_factor=2, mode="bilinear", antialias=True),
        f"aten._upsample_bilinear2d_aa.vec {NONE}",
    ),
    "double": (
        lambda s, x: F.relu(x.double()).float(),
        f"aten.to.dtype {NONE}; aten.relu.default gives something other than one picture of floats",
    ),
    "in place on a part": (
        lambda s, x: (x[:, :, 1:].mul_(2), x)[1],
        None,
    ),
}


@pytest.mark.parametrize(("function", "reason"), LEFT.values(), ids=LEFT)
def test_pytorch_runs(function, reason):
    parts = {
        "grouped": nn.Conv2d(CHANNELS, CHANNELS, 3, groups=3),
        "inner": nn.Sequential(nn.Conv2d(CHANNELS, CHANNELS, 3, dilation=2)),
        "uneven": nn.Conv2d(CHANNELS, CHANNELS, 2, padding="same"),
        "norm": norm(track_running_stats=False),
    }
    captured = captured_same(network(function, **parts), (32, 46), (16, 8))
    assert reasons(captured)
    if reason is not None:
        assert "; ".join(reasons(captured)) == reason


def test_chance_is_thrown_anew_for_every_picture():
    captured = capture(network(lambda s, x: x + torch.rand(1, CHANNELS, 1, 1)))
    assert reasons(captured) == ["aten.rand.default has no counterpart in the graph"]
    picture = torch.zeros(1, 3, 4, 4)
    assert not torch.equal(run(captured, picture), run(captured, picture))


def test_dropout_that_never_stops_goes_on():
    captured = capture(network(lambda s, x: F.dropout(x, 0.5, True)))
    assert reasons(captured) == ["aten.dropout.default has no counterpart in the graph"]
