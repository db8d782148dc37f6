from torch import nn

import scumble
from scumble.engines import Compiled, Engine, Job
from scumble.engines.reference import Reference
from scumble.engines.survey import survey


class OnlyGpu(Engine):
    """Runs on a GPU.

    With more to say.
    """

    name = "only-gpu"

    def refusals(self, job: Job) -> list[str]:
        device = [] if job.device == "cuda" else [f"it needs a CUDA device, got {job.device}"]
        return device + (["it evaluates only"] if job.training else [])

    def compile(self, network: nn.Module, threads: int | None = None) -> Compiled:
        raise NotImplementedError


ENGINES = {"only-gpu": OnlyGpu(), "reference": Reference()}


def test_an_engine_is_asked_about_every_device_there_is():
    network = scumble.build("edsr-x2", features=8, blocks=1)
    without, reference = survey(network, ENGINES, gpu=False)
    assert without.runs_on == []
    assert str(without) == "only-gpu does not run it; on cpu: it needs a CUDA device, got cpu"
    assert reference.runs_on == ["cpu"]
    within, reference = survey(network, ENGINES, gpu=True)
    assert str(within) == "only-gpu runs it on cuda: Runs on a GPU."
    assert reference.runs_on == ["cpu", "cuda"]
    assert within.to_json() == {
        "runs_on": ["cuda"],
        "refusals": {"cpu": ["it needs a CUDA device, got cpu"], "cuda": []},
        "about": "Runs on a GPU.",
    }


def test_all_our_engines_are_asked():
    found = survey(scumble.build("edsr-x2", features=8, blocks=1))
    assert [one.engine for one in found] == list(scumble.engines.ENGINES)
