"""Filters that go take their channels with them, wherever these are read."""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import scumble
from scumble.nn.channels import follow_channels
from scumble.nn.filters import Filters
from scumble.nn.tracing import trace
from tests.networks import Tiny
from tests.nn.narrow import narrow_and_masked, removable

SIZE = (24, 20)


def assert_same_outputs(network, share=0.5, readers=True, size=SIZE):
    narrow, masked, filters = narrow_and_masked(network.eval(), size, share, readers)
    x = torch.rand(2, 3, *size)
    with torch.no_grad():
        torch.testing.assert_close(narrow(x), masked(x), rtol=1e-5, atol=1e-5)
    return narrow, filters


@pytest.mark.parametrize("name", ["edsr-x4", "carn-x2", "carn-x3", "rfdn-x4"])
def test_the_papers_networks_give_the_outputs_of_their_masked_originals(name):
    size = {"features": 16, "blocks": 2} if name.startswith("edsr") else {"features": 16}
    if name.startswith("rfdn"):
        size = {"features": 16, "attention": 8, "blocks": 2}
    network = scumble.build(name, **size)
    narrow, _ = assert_same_outputs(network, 0.4, readers=False, size=(40, 36))
    widths = {conv.out_channels for conv in narrow.modules() if isinstance(conv, nn.Conv2d)}
    expected = {"edsr-x4": {6, 24, 3}, "carn-x2": {6, 24, 3}, "carn-x3": {6, 54, 3}}
    assert widths == expected.get(name, {6, 3, 48})


class Woven(nn.Module):
    """Shared modules, concatenations of what was concatenated, and a sum across them."""

    def __init__(self):
        super().__init__()
        self.head, self.twice = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 8, 3, padding=1)
        self.gather, self.also = nn.Conv2d(24, 12, 1), nn.Conv2d(12, 12, 1)
        self.tail = nn.Conv2d(36, 3, 1)

    def forward(self, x):
        a = self.head(x)
        b = self.twice(F.relu(self.twice(a)))
        c = torch.cat([a, torch.cat([b, a], 1)], 1)
        d = self.gather(c)
        e = self.also(d) * torch.sigmoid(d)
        return self.tail(torch.cat([d, c], 1)) + self.tail(torch.cat([e, c], 1))


def test_shared_modules_and_concatenated_channels_stay_in_step():
    narrow, filters = assert_same_outputs(Woven())
    assert narrow.head.weight.shape[0] == narrow.twice.weight.shape[0] == 4
    assert narrow.twice.weight.shape[1] == 4
    assert narrow.gather.weight.shape[:2] == (6, 12)
    assert narrow.tail.weight.shape[1] == 18
    assert len(filters.classes) == 2


class SharedWeight(nn.Module):
    """Two layers with one weight, one of them called by hand."""

    def __init__(self):
        super().__init__()
        self.head, self.one = nn.Conv2d(3, 8, 3), nn.Conv2d(8, 8, 3)
        self.two = nn.Conv2d(8, 8, 3)
        self.two.weight = self.one.weight
        self.tail = nn.Conv2d(8, 3, 1)

    def forward(self, x):
        x = F.conv2d(self.one(self.head(x)), self.two.weight, self.two.bias)
        return self.tail(x)


def test_a_weight_that_two_layers_share_is_made_smaller_once():
    narrow, _ = assert_same_outputs(SharedWeight())
    assert narrow.one.weight is narrow.two.weight
    assert narrow.one.weight.shape == (4, 4, 3, 3)


class ManyParts(nn.Module):
    """Whatever else has channels: norms, slopes, depthwise and transposed layers, attention."""

    def __init__(self):
        super().__init__()
        self.head, self.norm = nn.Conv2d(3, 12, 3, padding=1), nn.BatchNorm2d(12)
        self.norm.running_mean.uniform_(-1, 1)
        self.norm.running_var.uniform_(0.5, 2)
        self.slopes, self.depthwise = nn.PReLU(12), nn.Conv2d(12, 12, 3, padding=1, groups=12)
        self.scale = nn.Parameter(torch.rand(1, 12, 1, 1))
        self.squeeze, self.excite = nn.Linear(12, 8), nn.Linear(8, 12)
        self.up = nn.ConvTranspose2d(12, 10, 2, stride=2)
        self.down = nn.Conv2d(40, 6, 3, padding=1)
        self.tail = nn.Conv2d(6, 3, 1)
        self.register_buffer("shift", torch.rand(10, 1, 1))

    def forward(self, x):
        x = self.slopes(self.norm(self.head(x)))
        x = F.pad(self.depthwise(x), (1, 1, 1, 1), mode="reflect")[:, :, 1:-1, 1:-1]
        weights = torch.sigmoid(self.excite(F.relu(self.squeeze(x.mean((2, 3))))))
        x = x * weights[:, :, None, None] + self.scale
        x = F.interpolate(F.avg_pool2d(self.up(x), 2), scale_factor=2, mode="nearest") + self.shift
        x = F.pixel_unshuffle(x, 2)
        x = x.permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2)
        return self.tail(F.gelu(self.down(x)))


def test_all_that_has_channels_is_made_smaller():
    narrow, _ = assert_same_outputs(ManyParts())
    assert narrow.norm.num_features == narrow.slopes.num_parameters == 6
    assert narrow.norm.running_mean.shape == (6,)
    assert narrow.depthwise.groups == narrow.depthwise.in_channels == 6
    assert (narrow.squeeze.in_features, narrow.squeeze.out_features) == (6, 4)
    assert narrow.excite.out_features == 6
    assert narrow.scale.shape == (1, 6, 1, 1)
    assert (narrow.up.in_channels, narrow.up.out_channels) == (6, 5)
    assert narrow.shift.shape == (5, 1, 1)
    assert (narrow.down.in_channels, narrow.down.out_channels) == (20, 3)


def spoil_split(x):
    a, b = x.split([4, 12], 1)
    return torch.cat([b, a], 1)


SPOILERS = {
    "parts by number": spoil_split,
    "a slice": lambda x: torch.cat([x[:, 8:], x[:, :8]], 1),
    "a mean over channels": lambda x: x - x.mean(1, keepdim=True),
    "a norm over channels": lambda x: F.group_norm(x, 4),
    "channels that change places": lambda x: F.channel_shuffle(x, 4),
    "a constant for each channel": lambda x: x + torch.linspace(0, 1, 16).view(1, 16, 1, 1),
    "a product of channels": lambda x: (x.flatten(2) @ x.flatten(2).transpose(1, 2)).mean() * x,
    "a reshape": lambda x: x.reshape(x.shape[0], 8, -1, x.shape[3]).reshape(x.shape),
    "a softmax": lambda x: x.softmax(1),
    "a place to put it": lambda x: torch.zeros(x.shape).copy_(x),
    "an index": lambda x: x[:, torch.arange(15, -1, -1)],
}


class Spoiled(nn.Module):
    def __init__(self, spoil):
        super().__init__()
        self.head, self.body = nn.Conv2d(3, 16, 3), nn.Conv2d(16, 8, 3)
        self.tail, self.spoil = nn.Conv2d(8, 3, 1), spoil

    def forward(self, x):
        return self.tail(self.body(self.spoil(self.head(x))))


@pytest.mark.parametrize("kind", SPOILERS)
def test_channels_that_cannot_be_followed_stay(kind):
    network = Spoiled(SPOILERS[kind])
    narrow, filters = assert_same_outputs(network)
    assert narrow.head.weight.shape == network.head.weight.shape
    assert narrow.body.weight.shape == (4, 16, 3, 3)
    assert not removable(filters, network.head.weight)
    assert removable(filters, network.body.weight)


class WithWeight(nn.Module):
    """Runs a weight that it computes, or uses one outside of its layer as well."""

    def __init__(self, kind):
        super().__init__()
        self.kind = kind
        self.head, self.body = nn.Conv2d(3, 16, 3), nn.Conv2d(16, 16, 3)
        self.tail = nn.Conv2d(16, 3, 1)

    def forward(self, x):
        x = self.head(x)
        if self.kind == "computed":
            return self.tail(F.conv2d(x, self.body.weight - self.body.weight.mean()))
        return self.tail(self.body(x)) * self.body.weight.std()


@pytest.mark.parametrize("kind", ["computed", "also used elsewhere"])
def test_weights_that_are_more_than_a_layers_stay(kind):
    network = WithWeight(kind)
    narrow, _ = assert_same_outputs(network)
    assert narrow.body.weight.shape == network.body.weight.shape


def test_grouped_layers_stay_and_the_rest_of_a_strange_network_shrinks():
    narrow, _ = assert_same_outputs(Tiny(), size=(12, 10))
    assert narrow.grouped.weight.shape == (16, 4, 3, 3)
    assert narrow.shared.weight.shape == (16, 16, 3, 3)
    assert (narrow.odd.out_channels, narrow.wide.in_channels) == (5, 5)
    assert narrow.head.out_channels == narrow.down.in_channels == 8
    assert narrow.up.out_channels == narrow.tail.in_channels == 8


class Random(nn.Module):
    """A network drawn at random: layers that read, join, add or multiply what was made before."""

    def __init__(self, draw):
        super().__init__()
        self.steps, widths = [], [6, 6]
        self.head = nn.Conv2d(3, 6, 3, padding=1)
        self.layers = nn.ModuleList()
        for _ in range(draw(st.integers(2, 7))):
            kind = draw(st.sampled_from(("conv", "again", "cat", "add", "gate", "norm", "shuffle")))
            one, other = (draw(st.integers(0, len(widths) - 1)) for _ in range(2))
            if kind in ("add", "gate") and widths[one] != widths[other]:
                kind = "cat"
            layer, width = self.make(kind, widths[one], widths[other], draw)
            self.steps.append((kind, one, other, len(self.layers) - 1 if layer else None))
            widths.append(width)
        self.tail = nn.Conv2d(widths[-1], 3, 1)

    def make(self, kind, one, other, draw):
        if kind == "again" and any(c.in_channels == c.out_channels == one for c in self.convs()):
            same = [c for c in self.convs() if c.in_channels == c.out_channels == one]
            self.layers.append(same[0])
            return same[0], one
        if kind in ("conv", "again"):
            width = draw(st.sampled_from((one, 4, 6, 9)))
            self.layers.append(nn.Conv2d(one, width, 3, padding=1))
        elif kind == "norm":
            self.layers.append(nn.Sequential(nn.BatchNorm2d(one), nn.PReLU(one)))
            width = one
        elif kind == "shuffle":
            conv = nn.Conv2d(one, 4 * one, 1)
            self.layers.append(nn.Sequential(conv, nn.PixelShuffle(2), nn.MaxPool2d(2)))
            width = one
        else:
            return None, one + other if kind == "cat" else one
        return self.layers[-1], width

    def convs(self):
        return [layer for layer in self.layers if isinstance(layer, nn.Conv2d)]

    def forward(self, x):
        made = [self.head(x)]
        made.append(F.relu(made[0]))
        for kind, one, other, layer in self.steps:
            a, b = made[one], made[other]
            if layer is not None:
                made.append(F.leaky_relu(self.layers[layer](a), 0.1))
            else:
                joined = {"cat": lambda a, b: torch.cat([a, b], 1), "add": torch.add}
                made.append(joined.get(kind, lambda a, b: a * torch.sigmoid(b))(a, b))
        return self.tail(made[-1])


@given(st.data(), st.sampled_from((0.2, 0.5, 0.8)))
@settings(max_examples=60)
def test_random_networks_give_the_outputs_of_their_masked_originals(data, share):
    torch.manual_seed(0)
    network = Random(data.draw)
    narrow, filters = assert_same_outputs(network, share, size=(8, 6))
    whole, left = (trace(n, (8, 6)).paper_macs for n in (network, narrow))
    counts = [max(1, int(share * len(units))) for units in filters.classes]
    everything = filters.macs([len(units) for units in filters.classes])
    assert whole - left == everything - filters.macs(counts)


def test_norms_add_up_the_filters_that_go_together():
    network = nn.Sequential(nn.Conv2d(3, 8, 1), nn.PixelShuffle(2), nn.Conv2d(2, 3, 1))
    filters = Filters(follow_channels(network, (4, 4)))
    expected = network[0].weight.detach().double().abs().sum((1, 2, 3)).view(2, 4).sum(1)
    assert len(filters.classes) == 1
    torch.testing.assert_close(filters.norms[filters.classes[0]], expected.sort(descending=True)[0])


class ByColour(nn.Module):
    """Blurs red, green and blue each by itself, before anything else."""

    def __init__(self):
        super().__init__()
        self.blur = nn.Conv2d(3, 3, 3, padding=1, groups=3)
        self.head, self.tail = nn.Conv2d(3, 8, 1), nn.Conv2d(8, 3, 1)

    def forward(self, x):
        return self.tail(self.head(self.blur(x)))


def test_the_channels_of_the_picture_stay():
    narrow, _ = assert_same_outputs(ByColour())
    assert narrow.blur.weight.shape == (3, 1, 3, 3)
    assert narrow.head.weight.shape == (4, 3, 1, 1)
