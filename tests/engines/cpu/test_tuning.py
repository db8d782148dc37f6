"""The choice of a way through a convolution: it is measured, remembered, and changes no result."""

import pytest
import torch
from torch import nn

import scumble
from scumble.bench.cases import prune_layers
from scumble.engines.cpu import tuning
from scumble.engines.cpu.cache import folder
from scumble.engines.cpu.kernels import kernels
from scumble.engines.cpu.target import target
from scumble.engines.cpu.tuning import Tuner, tuner


@pytest.fixture
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("SCUMBLE_CACHE", str(tmp_path))
    monkeypatch.setattr(tuner(kernels(target())), "_known", {})
    return tmp_path


def network(counts=(3, 8, 24)) -> nn.Module:
    body = [nn.Conv2d(64, 64, 3, padding=1), nn.Conv2d(64, 64, 1), nn.Conv2d(64, 64, 3, padding=1)]
    plain = nn.Sequential(nn.Conv2d(3, 64, 3, padding=1), *body, nn.Conv2d(64, 3, 3, padding=1))
    return prune_layers(plain.eval(), counts)


def result(net: nn.Module, picture: torch.Tensor) -> torch.Tensor:
    return scumble.compile(net, engine="cpu", threads=1)(picture)


def test_sums_are_the_same_to_the_bit_whatever_way_is_taken(own_cache, monkeypatch):
    net, picture = network(), torch.rand(1, 3, 21, 70)
    ways = []

    def take(at):
        def choose(self, layer, geometry, content):
            kept = content.kept(layer.work.conv.weight)
            found = list(tuning.candidates(layer, kept, self.kernels.target.most_sums))
            ways.append(found[at % len(found)])
            return ways[-1]

        return choose

    results = []
    for at in range(6):
        monkeypatch.setattr(Tuner, "choose", take(at))
        results.append(result(net, picture))
    assert len({*ways}) > 6
    assert all(torch.equal(one, results[0]) for one in results)


def test_a_pixel_is_the_same_to_the_bit_in_pictures_of_any_size(own_cache):
    net, picture = network(), torch.rand(1, 3, 40, 90)
    whole = result(net, picture)
    for top, left, height, width in ((0, 0, 17, 33), (5, 7, 30, 80), (11, 50, 29, 40)):
        part = result(net, picture[:, :, top : top + height, left : left + width])
        inside = part[:, :, 4 : height - 4, 4 : width - 4]
        rows, columns = slice(top + 4, top + height - 4), slice(left + 4, left + width - 4)
        assert torch.equal(inside, whole[:, :, rows, columns])


@pytest.mark.parametrize(
    ("times", "chosen"), [((1.0, 0.9, 0.5), 2), ((1.0, 0.99, 1.2), 0), ((2.0, 1.0, 1.5), 1)]
)
def test_the_fastest_wins_unless_the_usual_way_is_hardly_slower(
    own_cache, monkeypatch, times, chosen
):
    seen = []

    def measured(codes, layer, geometry):
        seen.append((len(codes), [code.tallest for code in codes]))
        return [*times, *[9.0] * (len(codes) - len(times))]

    monkeypatch.setattr(tuning, "measure", measured)
    net = nn.Sequential(nn.Conv2d(64, 64, 3, padding=1))
    scumble.compile(net, engine="cpu", threads=1)(torch.rand(1, 64, 5, 40))
    ((key, way),) = tuner(kernels(target()))._known.items()
    assert len(seen) == 1
    inputs = [16, 8, 32]
    assert key.startswith("code-")
    assert way.inputs == inputs[chosen]


def test_a_choice_is_remembered_by_later_processes(own_cache, monkeypatch):
    net, picture = network(), torch.rand(1, 3, 9, 40)
    result(net, picture)
    first = result(net, picture)  # a network seen before is also tried on a small picture
    files = sorted(own_cache.rglob("tuned-*.json"))
    assert files
    fresh = Tuner(kernels(target()))
    monkeypatch.setattr(tuning, "tuner", lambda _: fresh)
    monkeypatch.setattr("scumble.engines.cpu.plan.tuner", lambda _: fresh)
    monkeypatch.setattr(tuning, "measure", None)
    assert torch.equal(result(net, picture), first)
    assert len(fresh._known) == len(files)


@pytest.mark.parametrize("damage", [b"", b"x" * 80, None])
def test_a_damaged_choice_is_measured_anew(own_cache, monkeypatch, damage):
    net, picture = network(), torch.rand(1, 3, 9, 40)
    result(net, picture)
    first = result(net, picture)
    for file in folder().rglob("tuned-*.json"):
        content = file.read_bytes()
        file.write_bytes(content[:-1] + b"!" if damage is None else damage)
    fresh = Tuner(kernels(target()))
    measured, measure = [], tuning.measure
    monkeypatch.setattr("scumble.engines.cpu.plan.tuner", lambda _: fresh)
    monkeypatch.setattr(tuning, "measure", lambda *given: measured.append(1) or measure(*given))
    assert torch.equal(result(net, picture), first)
    assert len(measured) == len(fresh._known) > 0
