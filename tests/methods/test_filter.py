import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import scumble
from scumble.errors import BudgetError, NetworkError
from scumble.methods.filter import same_share
from scumble.nn.channels import follow_channels
from scumble.nn.filters import Filters
from tests.networks import Tiny, picture


def test_the_filters_of_the_smallest_norm_go_by_hand():
    """Four filters, of which the second and the third stay, and a reader of four channels."""
    network = nn.Sequential(nn.Conv2d(5, 4, 1), nn.ReLU(), nn.Conv2d(4, 3, 1))
    norms = torch.tensor([1.0, 3, -4, 2])
    with torch.no_grad():
        network[0].weight.copy_(norms.view(4, 1, 1, 1).expand(4, 5, 1, 1))
        network[0].bias.copy_(torch.tensor([9.0, 8, 7, 6]))
        network[2].weight.copy_(torch.arange(12.0).view(3, 4, 1, 1))
    inner = nn.Sequential(nn.Conv2d(3, 5, 1), *network)
    pruned = scumble.finalize(scumble.sparsify(inner, scumble.Filter("1/4"), (4, 4), second))
    assert pruned[1].weight.flatten(1)[:, 0].tolist() == [3, -4]
    assert pruned[1].bias.tolist() == [8, 7]
    assert pruned[3].weight.flatten().tolist() == [1, 2, 5, 6, 9, 10]
    assert pruned[0].weight.shape == (5, 3, 1, 1)
    assert (pruned[3].in_channels, pruned[1].out_channels) == (2, 2)


def second(name, conv):
    return name == "1"


@pytest.mark.parametrize("budget", ["1/4", "1/16"])
@pytest.mark.parametrize("name", ["edsr-x4", "carn-x4", "rfdn-x4"])
def test_it_costs_what_patterns_of_the_budget_cost(name, budget):
    network = scumble.build(name)
    sparse = scumble.sparsify(network, scumble.Filter(budget))
    share = scumble.Budget.parse(budget).share
    patterned = scumble.inspect(network, pattern=f"{round(32 * share)}:32").cost.paper_macs
    cost = scumble.inspect(scumble.finalize(sparse)).cost
    assert 0.97 * patterned < cost.paper_macs <= patterned
    assert share * 0.95 < sparse.pruning.kept <= share
    assert sparse.pruning.kept == sparse.pruning.target
    whole = scumble.inspect(network).cost.paper_macs
    assert whole - (1 - sparse.pruning.kept) * sparse.pruning.dense == pytest.approx(
        cost.paper_macs, abs=1
    )


def test_every_layer_keeps_the_same_share():
    network = scumble.build("carn-x4")
    pruned = scumble.finalize(scumble.sparsify(network, scumble.Filter("1/8")))
    shares = [
        (conv.out_channels, was.out_channels)
        for conv, was in zip(pruned.modules(), network.modules(), strict=True)
        if isinstance(conv, nn.Conv2d) and was.out_channels > 3
    ]
    least = min(now / was for now, was in shares)
    assert all(now / was - least <= 1 / 64 for now, was in shares)
    assert pruned.tail.out_channels == 3


@given(st.integers(2, 40), st.integers(0, 3))
@settings(max_examples=25)
def test_classes_keep_the_largest_share_that_fits_and_one_more_where_there_is_room(part, seed):
    torch.manual_seed(seed)
    filters = Filters(follow_channels(scumble.build("rfdn-x2", features=16, blocks=1), (32, 32)))
    sizes = [len(units) for units in filters.classes]
    target = filters.macs(sizes) / part
    tried = [[max(1, size * step // 32) for size in sizes] for step in range(33)]
    fitting = [counts for counts in tried if filters.macs(counts) <= target]
    counts = same_share(filters, target)
    if counts is None:
        assert not fitting
        return
    assert filters.macs(counts) <= target
    for place, (count, base) in enumerate(zip(counts, fitting[-1], strict=True)):
        assert count in (base, base + 1)
        more = [c + (p == place) for p, c in enumerate(counts)]
        if count == base < sizes[place]:
            assert filters.macs(more) > target


def test_room_is_spent_on_the_filter_that_is_the_largest_beside_its_class():
    """Two classes of four alike in cost; the next filter of the second is nearly its average."""
    layers = [nn.Conv2d(3, 4, 1), nn.Conv2d(4, 4, 1), nn.Conv2d(4, 3, 1)]
    with torch.no_grad():
        for layer, norms in ((layers[0], [9.0, 8, 1, 1]), (layers[1], [4.0, 3, 3, 2])):
            layer.weight.copy_(torch.tensor(norms).view(4, 1, 1, 1).expand_as(layer.weight))
    filters = Filters(follow_channels(nn.Sequential(*layers), (4, 4)))
    between = (filters.macs([2, 2]) + filters.macs([3, 3])) / 2
    assert same_share(filters, between) == [2, 3]
    assert filters.macs([2, 3]) == filters.macs([3, 2]) <= between


def test_a_budget_in_macs_is_of_the_whole_network():
    pruned = scumble.finalize(scumble.sparsify(Tiny(), scumble.Filter(200e3), size=(12, 10)))
    assert 190e3 < scumble.inspect(pruned, (12, 10)).cost.paper_macs <= 200e3


def test_the_network_trains_on():
    sparse = scumble.sparsify(Tiny(), scumble.Filter("1/2"), size=(12, 10))
    optimizer = torch.optim.Adam(sparse.parameters(), lr=0.01)
    clean, losses = picture(), []
    for _ in range(20):
        loss = (sparse(clean) - clean).abs().mean() + sparse.pruning.penalty()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        sparse.pruning.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] / 2
    assert torch.equal(scumble.finalize(sparse)(clean), sparse(clean))


def test_only_the_layers_that_are_chosen_lose_filters():
    network = scumble.build("edsr-x2", features=16, blocks=2)

    def where(name, conv):
        return name.endswith("conv1")

    sparse = scumble.sparsify(network, scumble.Filter("1/2"), (24, 24), where)
    widths = {name: conv.out_channels for name, conv in sparse.named_modules() if where(name, conv)}
    assert set(widths.values()) == {12}  # what their readers save counts as well
    assert sparse.head.out_channels == 16
    assert sparse.body[0].conv2.weight.shape == (16, 12, 3, 3)
    assert 0.49 < sparse.pruning.kept <= 0.5


class Stuck(nn.Module):
    def __init__(self):
        super().__init__()
        self.head, self.tail = nn.Conv2d(3, 8, 1), nn.Conv2d(8, 8, 1)

    def forward(self, x):
        return self.tail(self.head(x).softmax(1))


def test_what_cannot_be_pruned_is_said():
    with pytest.raises(NetworkError, match="none of the filters of this Stuck can be followed"):
        scumble.sparsify(Stuck(), scumble.Filter("1/2"), (9, 9))
    with pytest.raises(NetworkError, match="needs a convolution to prune, found none"):
        scumble.sparsify(nn.Sequential(nn.Conv2d(3, 3, 1)), scumble.Filter("1/2"), (9, 9))
    pruned = scumble.finalize(scumble.sparsify(Tiny(), scumble.OneShot("4:16")))
    with pytest.raises(NetworkError, match="needs a dense network, got one whose layer down has"):
        scumble.sparsify(pruned, scumble.Filter("1/2"), (9, 9))


@pytest.mark.parametrize(
    ("budget", "sentence"),
    [
        ("1/1000", r"budget 1/1000 leaves .* GMACs, and one filter in every layer costs more"),
        (10e9, "budget 10 GMACs is above the .* GMACs of the whole network"),
        (8, "budget 8e-09 GMACs is not above the .* GMACs of the layers that stay dense anyway"),
    ],
)
def test_budgets_that_cannot_be_met_are_refused(budget, sentence):
    with pytest.raises(BudgetError, match=sentence):
        scumble.sparsify(Tiny(), scumble.Filter(budget), size=(12, 10))
