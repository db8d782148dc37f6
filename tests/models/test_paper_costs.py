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
