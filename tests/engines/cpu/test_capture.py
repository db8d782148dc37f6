"""Whole networks: in one piece, for any size, unchanged; and those that cannot be captured."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import scumble
from scumble.core.pattern import Pattern
from scumble.engines.cpu.capture import capture
from scumble.engines.graph import Conv, Resize
from scumble.errors import EngineError
from tests.engines.cpu.running import (
    Does,
    assert_same,
    captured_same,
    only_graph,
    operations,
    reasons,
    run,
)
from tests.foreign import InLevels, Rlfn
from tests.networks import Tiny, keep_only

SMALL = {
    "edsr": {"features": 8, "blocks": 2},
    "carn": {"features": 8},
    "rfdn": {"features": 8, "attention": 4, "blocks": 2},
}


def conv(inputs=3, outputs=3, side=3, **options):
    return nn.Conv2d(inputs, outputs, side, padding=side // 2, **options)


@pytest.mark.parametrize("scale", [2, 3, 4])
@pytest.mark.parametrize("name", SMALL)
def test_our_networks_are_one_piece_for_any_size(name, scale):
    network = scumble.build(f"{name}-x{scale}", **SMALL[name])
    captured = captured_same(network, (16, 16), (33, 47), (20, 61))
    assert captured.channels == 3
    assert captured.input in only_graph(captured).graph.inputs
    assert not captured.remembered


def test_a_network_of_strangers_is_one_piece():
    only_graph(captured_same(InLevels(Rlfn(features=8, attention=4))))


def test_pictures_that_the_network_is_too_large_for_are_not_held():
    captured = capture(scumble.build("rfdn-x2", **SMALL["rfdn"]))
    assert captured.holds(15, 15)
    assert not captured.holds(14, 15)
    assert captured.holds(1080, 1920)


def test_the_smallest_pictures_are_held():
    network = scumble.build("edsr-x2", **SMALL["edsr"])
    captured_same(network, (1, 1), (1, 9), (2, 1))


def test_the_operations_of_edsr_are_those_of_its_code():
    captured = capture(scumble.build("edsr-x2", features=8, blocks=1))
    block = ["Conv", "Activation", "Conv", "Add"]
    up = ["Conv", "Add", "Conv", "PixelShuffle"]
    assert operations(captured) == ["Affine", "Conv", *block, *up, "Conv", "Affine"]


def test_attention_is_resized_as_large_as_what_it_weighs():
    graph = only_graph(capture(scumble.build("rfdn-x2", **SMALL["rfdn"]))).graph
    nodes = {node.name: node for node in graph.nodes}
    (resize, _) = (node for node in graph.nodes if isinstance(node.operation, Resize))
    assert resize.operation == Resize("bilinear", None)
    assert nodes[resize.inputs[1]].operation.kernel == (1, 1)


def test_weights_are_plain_floats_in_one_piece_of_memory():
    network = scumble.build("edsr-x2", **SMALL["edsr"])
    network.head.weight.data = network.head.weight.data.permute(0, 1, 3, 2)
    piece = only_graph(captured_same(network))
    for tensor in piece.weights.values():
        assert tensor.dtype == torch.float32
        assert tensor.is_contiguous()
        assert not tensor.requires_grad


def test_the_network_is_not_changed():
    network = scumble.build("carn-x2", features=8).train()
    before = copy.deepcopy(network.state_dict())
    captured = capture(network)
    assert network.training
    assert all(torch.equal(before[key], now) for key, now in network.state_dict().items())
    picture = torch.rand(1, 3, 12, 9)
    shown = run(captured, picture)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.zero_()
    assert torch.equal(run(captured, picture), shown)


@pytest.mark.parametrize("method", [scumble.OneShot("4:16"), scumble.SLS(m=16, budget="1/2")])
def test_a_network_that_is_being_pruned_is_captured_as_it_is_pruned_now(method):
    network = scumble.build("edsr-x2", features=16, blocks=1)
    sparse = scumble.sparsify(network, method, size=(32, 32)).eval()
    captured = capture(sparse)
    assert_same(captured, sparse)
    assert hasattr(sparse, "pruning")
    only_graph(captured)


def test_a_network_around_one_that_is_being_pruned_is_captured():
    network = scumble.build("edsr-x2", features=16, blocks=1)
    around = InLevels(scumble.sparsify(network, scumble.OneShot("4:16"))).eval()
    only_graph(captured_same(around))


def test_patterns_are_those_of_the_zeros():
    network = scumble.build("edsr-x2", features=32, blocks=1)
    sparse = scumble.sparsify(network, scumble.SLS(m=32, budget="1/2"), size=(32, 32))
    keep_only(sparse, 3)
    pruned = scumble.finalize(sparse)
    with torch.no_grad():
        pruned.body[1].weight.zero_()
    convs = {
        node.operation.weight: node.operation.pattern
        for node in only_graph(capture(pruned)).graph.nodes
        if isinstance(node.operation, Conv)
    }
    assert convs["body.0.conv1.weight"] == Pattern(3, 32)
    assert convs["body.1.weight"] == Pattern(1, 32)
    assert convs["head.weight"] is None  # three channels are no group
    assert convs["tail.weight"] is None  # dense


def test_a_network_that_needs_multiples_of_a_side_is_captured():
    def forward(self, x):
        return F.pixel_shuffle(self.conv(F.pixel_unshuffle(x, 4)), 4)

    captured = captured_same(Does(forward, conv=conv(48, 48)), (64, 80), (96, 48))
    assert operations(captured) == ["PixelUnshuffle", "Conv", "PixelShuffle"]
    assert not captured.holds(66, 80)


def test_a_picture_has_as_many_channels_as_the_first_convolution_takes():
    assert captured_same(conv(5, 2)).channels == 5
    assert captured_same(nn.ReLU()).channels == 3


def test_pieces_hold_where_the_network_goes_the_same_way():
    def forward(self, x):
        return self.conv(x) if x.shape[2] % 2 == 0 else x

    captured = captured_same(Does(forward, conv=conv()), (32, 33))
    assert not captured.holds(33, 33)


def test_a_network_that_pads_its_picture_runs_around_the_graph():
    def forward(self, x):
        height, width = x.shape[2:]
        padded = F.pad(x, (0, -width % 8, 0, -height % 8), "reflect")
        return self.conv(padded)[:, :, :height, :width]

    captured = captured_same(Does(forward, conv=conv()), (32, 32), (33, 47), (9, 15))
    assert reasons(captured) == [
        "aten.pad.default has no counterpart in the graph",
        "aten.slice.Tensor cuts the picture, not its channels",
    ]


def test_attention_in_windows_runs_in_torch_for_any_size():
    def forward(self, x):
        batch, channels, height, width = x.shape
        rows, columns = height // 8, width // 8
        windows = self.conv(x).view(batch, channels, rows, 8, columns, 8)
        flat = windows.permute(0, 2, 4, 3, 5, 1).reshape(-1, 64, channels).softmax(1)
        back = flat.view(batch, rows, columns, 8, 8, channels).permute(0, 5, 1, 3, 2, 4)
        return self.conv(back.contiguous().view(batch, channels, height, width))

    captured = captured_same(Does(forward, conv=conv()), (64, 80), (16, 24))
    assert len(captured.pieces) == 3
    assert not captured.holds(17, 24)


def test_a_network_of_all_kinds_of_layers_is_captured_in_pieces():
    assert reasons(captured_same(Tiny())) == [
        "aten.pad.default has no counterpart in the graph",
        "again is a convolution of dilation 2; the engine runs 1; "
        "grouped is a convolution of 4 groups; the engine runs 1",
        "aten.conv_transpose2d.input has no counterpart in the graph",
    ]


def test_what_torch_gives_lies_in_memory_of_its_own():
    def forward(self, x):
        return self.conv(x).flatten(1)

    captured = captured_same(Does(forward, conv=conv()))
    piece = captured.pieces[-1]
    given = torch.rand(1, 3, 8, 8)
    (result,) = piece.run(given)
    expected = result.clone()
    given.zero_()
    assert torch.equal(result, expected)
    assert result.is_contiguous()


def test_a_network_that_changes_nothing_has_no_pieces():
    captured = captured_same(nn.Sequential(nn.Identity(), nn.Dropout()))
    assert captured.pieces == ()
    assert captured.input == captured.output


def test_what_the_result_does_not_need_is_dropped():
    def forward(self, x):
        self.spare(x).relu()
        return self.conv(x)

    piece = only_graph(captured_same(Does(forward, conv=conv(), spare=conv())))
    assert [*piece.weights] == ["conv.weight", "conv.bias"]


def test_sums_of_many_tensors_find_their_way_between_pieces():
    def forward(self, x):
        first = self.conv(x)
        second = F.gelu(first)
        third = self.conv(second) + first
        return torch.fft.fft2(third).real + second + first

    captured = captured_same(Does(forward, conv=conv()))
    assert len(captured.pieces) == 5


FIXED = "depends on the size of the picture in a way that cannot be followed: it can be captured"


@pytest.mark.parametrize(
    ("forward", "message"),
    [
        (lambda self, x: x + self.conv.weight.new_ones(192, 320), f"Does {FIXED} only where"),
        (
            lambda self, x: F.interpolate(x, (int(x.shape[2] * 2), int(x.shape[3] * 2))),
            f"Does {FIXED} only where height == 192",
        ),
        (
            lambda self, x: F.interpolate(x, (x.shape[2], int(x.shape[3] / 3))),
            rf"Does {FIXED} only where math\.trunc\(width / 3\) == 106",
        ),
        (
            lambda self, x: x * float(x.mean()),
            "Does cannot be captured: what it runs depends on the numbers in the picture",
        ),
        (
            lambda self, x: (self.conv(x), x),
            "Does does not return one tensor; an engine needs a picture",
        ),
        (
            lambda self, x: [self.conv(x)],
            "Does does not return one tensor; an engine needs a picture",
        ),
        (
            lambda self, x: torch.ones(1, 3, 4, 4),
            "Does returns the same whatever the picture",
        ),
        (
            lambda self, x: self.conv(x) * self.count.add_(1),
            "Does changes its buffer count while it runs; no engine would",
        ),
        (
            lambda self, x: self.missing(x),
            "Does cannot be captured: 'Does' object has no attribute 'missing'",
        ),
    ],
)
def test_networks_that_no_pieces_express_are_refused(forward, message, capfd):
    network = Does(forward, conv=conv())
    network.register_buffer("count", torch.ones(1))
    with pytest.raises(EngineError, match=message):
        capture(network)
    assert capfd.readouterr() == ("", "")


def test_a_network_that_cannot_be_copied_is_refused():
    network = conv()
    network.cached = network(torch.rand(1, 3, 4, 4))
    with pytest.raises(EngineError, match="Conv2d cannot be copied, so it cannot be captured: "):
        capture(network)


def test_the_number_of_threads_stays():
    before = torch.get_num_threads()
    capture(conv())
    assert torch.get_num_threads() == before
