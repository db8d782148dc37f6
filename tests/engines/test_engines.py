"""What every engine promises, tried on each that there is."""

import copy

import pytest
import torch

import scumble
from scumble.bench.cases import prune_layers
from scumble.engines import ENGINES, Job, compile
from scumble.engines.dispatch import AUTO, PREFERENCE, choose
from scumble.errors import EngineError, UnknownNameError

SMALL = {
    "edsr-x2": {"features": 32, "blocks": 1},
    "carn-x3": {},
    "rfdn-x4": {},
}


def network(name: str = "edsr-x2", counts: tuple[int, ...] | None = None):
    built = scumble.build(name, **SMALL[name]).eval()
    return built if counts is None else prune_layers(built, counts)


def runnable() -> list[str]:
    job = Job.of(network())
    return [name for name, engine in ENGINES.items() if not engine.refusals(job)]


@pytest.mark.parametrize("engine", runnable())
@pytest.mark.parametrize("name", SMALL)
def test_an_engine_makes_what_the_network_makes(engine, name):
    net = network(name)
    before = copy.deepcopy(net.state_dict())
    fast = compile(net, engine, threads=2)
    for shape in ((1, 3, 16, 24), (2, 3, 33, 17), (1, 3, 64, 19)):
        picture = torch.rand(shape)
        with torch.inference_mode():
            wanted = net(picture)
        span = float(wanted.max() - wanted.min())
        assert float((fast(picture) - wanted).abs().max()) < 1e-5 * span
    assert all(torch.equal(value, before[key]) for key, value in net.state_dict().items())


@pytest.mark.parametrize("engine", runnable())
def test_an_engine_says_how_it_runs_a_network(engine):
    assert compile(network(), engine).explain().startswith("Edsr runs ")


def test_every_engine_can_be_preferred():
    assert {*PREFERENCE} == {*ENGINES}


def test_a_named_engine_is_used_or_refused():
    net = network().half()
    told = r"it computes in float32, this network is in float16"
    with pytest.raises(EngineError, match=told):
        compile(net, "cpu")
    assert choose(Job.of(net)).name == "reference"


def test_other_devices_are_refused_by_name():
    job = Job("Edsr", "cuda", "float32")
    told = (
        "no engine can run Edsr (float32, cuda)\n"
        "  cpu: it runs networks on the cpu, this one is on cuda"
    )
    with pytest.raises(EngineError) as error:
        choose(job, ["cpu"])
    assert str(error.value) == told


def test_an_engine_that_nobody_knows_is_refused():
    with pytest.raises(UnknownNameError, match="no engine named 'cup'. Did you mean 'cpu'"):
        compile(network(), "cup")
    assert AUTO not in ENGINES


def test_an_engine_runs_on_at_least_one_thread():
    with pytest.raises(EngineError, match="^an engine runs on at least 1 thread, got 0$"):
        compile(network(), threads=0)
