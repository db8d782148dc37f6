"""The GMACs columns of the paper's tables, at 1280x720 output."""

import pytest

import scumble

# Table 2: unpruned, then one-shot at each pattern.
PLAIN_BIASES = {
    "edsr-x4": {None: 114.49, "2:4": 58.22, "8:32": 30.09, "4:32": 16.02, "2:32": 8.98},
    "carn-x4": {None: 91.22, "2:4": 46.63},
    "rfdn-x4": {None: 39.86},
}
# These rows only fit when the biases of pruned layers shrink with their weights.
SCALED_BIASES = {
    "carn-x4": {"8:32": 24.20, "4:32": 13.02, "2:32": 7.44},
    "rfdn-x4": {"2:4": 20.02, "8:32": 10.10, "4:32": 5.17, "2:32": 2.66},
}


def rows(table):
    return [(name, pattern, g) for name, row in table.items() for pattern, g in row.items()]


@pytest.mark.parametrize(("name", "pattern", "gmacs"), rows(PLAIN_BIASES))
def test_costs_are_the_papers(name, pattern, gmacs):
    cost = scumble.inspect(scumble.build(name), (180, 320), pattern).cost
    assert cost.paper_macs / 1e9 == pytest.approx(gmacs, abs=0.02)


@pytest.mark.parametrize(("name", "pattern", "gmacs"), rows(SCALED_BIASES))
def test_costs_are_the_papers_where_it_scales_biases(name, pattern, gmacs):
    cost = scumble.inspect(scumble.build(name), (180, 320), pattern).cost
    assert cost.paper_macs_scaled / 1e9 == pytest.approx(gmacs, abs=0.035)


def test_the_conv_convention_counts_weights_alone():
    cost = scumble.inspect(scumble.build("carn-x4"), (180, 320)).cost
    assert cost.conv_macs == 90_873_446_400
    assert cost.paper_macs - cost.conv_macs == cost.bias_additions + cost.activations


# Table 2, filter pruning: networks of a half, three eighths and a quarter of the features.
FILTERS = {
    "edsr-x4": {32: (29.11, 380.93), 24: (16.56, 214.85), 16: (7.52, 96.00)},
    "carn-x4": {32: (23.31, 279.46), 24: (13.31, 157.75), 16: (6.08, 70.61)},
    "rfdn-x4": {32: (10.44, 214.77), 24: (6.05, 123.84), 16: (2.85, 57.74)},
}


@pytest.mark.parametrize(("name", "features", "row"), rows(FILTERS))
def test_filter_pruned_networks_cost_what_the_papers_do(name, features, row):
    attention = {"attention": features // 2} if name == "rfdn-x4" else {}
    cost = scumble.inspect(scumble.build(name, features=features, **attention), (180, 320)).cost
    assert cost.paper_macs / 1e9 == pytest.approx(row[0], abs=0.006)
    assert cost.parameters / 1e3 == pytest.approx(row[1], abs=0.006)
