import re

import pytest
import torch
import torch.nn.functional as F

import scumble
from scumble.errors import RecipeError, TrainingError
from scumble.training.run import FINAL, TrainingRun
from scumble.training.step import TrainStep
from scumble.training.teacher import Teacher
from tests.training.photos import make_photos, small_recipe


@pytest.fixture(name="teacher")
def saved_teacher(tmp_path):
    torch.manual_seed(3)
    path = tmp_path / "teacher.safetensors"
    scumble.save(scumble.build("edsr-x2", features=8, blocks=1), path)
    return path


def trained(recipe, folder):
    for _ in TrainingRun(recipe, folder, device="cpu").events():
        pass
    return (folder / FINAL).read_bytes()


class Answer(torch.nn.Module):
    """Gives the same pictures whatever it sees."""

    def __init__(self, value: float) -> None:
        super().__init__()
        self.value = torch.nn.Parameter(torch.tensor(value))

    def forward(self, image):
        return self.value.expand_as(image)


@pytest.mark.parametrize(("share", "loss"), [(0.25, 0.75 * 0.3 + 0.25 * 0.1), (1.0, 0.1)])
def test_photos_and_teacher_share_the_loss(share, loss):
    network, teacher = Answer(0.5), Teacher(Answer(0.6), share)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01)
    step = TrainStep(network, optimizer, F.l1_loss, teacher=teacher)
    degraded = torch.zeros(2, 3, 4, 4)
    assert step(degraded, torch.full_like(degraded, 0.2)).item() == pytest.approx(loss)
    down = (1 - share) - share  # the photo is darker than the network's picture, the teacher's not
    assert network.value.item() == pytest.approx(0.5 - 0.01 * down)


def test_a_teacher_stays_as_it_is(teacher, tmp_path):
    recipe = small_recipe(make_photos(tmp_path / "photos"), teacher=str(teacher), steps=6)
    run = TrainingRun(recipe, tmp_path / "run", device="cpu")
    before = run.step.teacher.digest
    list(run.events())
    assert run.step.teacher.digest == before
    known = {id(tensor) for tensor in run.step.tensors()}
    assert not any(id(p) in known or p.requires_grad for p in run.step.teacher.network.parameters())


def test_a_run_learns_from_its_teacher_alone_if_told_so(teacher, tmp_path):
    photos = make_photos(tmp_path / "photos")
    recipe = small_recipe(photos, teacher=str(teacher), teaching=1.0, steps=150)
    run = TrainingRun(recipe, tmp_path / "run", device="cpu")
    losses = [event.loss for event in run.events()]
    picture = torch.rand(1, 3, 12, 12)
    with torch.no_grad():
        told, made = run.step.teacher(picture), run.step.network(picture)
    assert losses[-1] < losses[0] / 2
    assert (told - made).abs().mean() < 0.05


def test_a_stopped_run_goes_on_with_its_teacher_and_no_other(teacher, tmp_path):
    recipe = small_recipe(make_photos(tmp_path / "photos"), teacher=str(teacher), steps=12)
    whole = trained(recipe, tmp_path / "whole")
    run = TrainingRun(recipe, tmp_path / "run", device="cpu")
    for event in run.events():
        if event.step >= 4:
            run.stop()
    assert run.progress.step == 5
    kept = teacher.read_bytes()
    scumble.save(scumble.build("edsr-x2", features=8, blocks=1), teacher)
    state = tmp_path / "run" / "state.safetensors"
    sentence = (
        f"{state} belongs to a run with another teacher; give it the teacher that it began with, "
        f"or another folder"
    )
    with pytest.raises(TrainingError, match=f"^{re.escape(sentence)}$"):
        TrainingRun(recipe, tmp_path / "run", device="cpu")
    teacher.write_bytes(kept)
    assert trained(recipe, tmp_path / "run") == whole


@pytest.mark.parametrize(
    ("teacher", "words"),
    [
        (
            "carn-x4",
            "train.teacher needs to enlarge pictures 2 times, as the network does, "
            "but carn-x4 enlarges 4 times",
        ),
        (
            "theirs.pth",
            "train.teacher needs a file that says which network it holds, got theirs.pth; "
            "load it into its network, and scumble.save that",
        ),
        (
            "nobody.safetensors",
            "train.teacher: there is no file nobody.safetensors; "
            "give a trained network by --set train.teacher=FILE",
        ),
    ],
)
def test_a_teacher_that_cannot_teach_is_refused_before_any_step(teacher, words, tmp_path):
    recipe = small_recipe(make_photos(tmp_path / "photos"), teacher=teacher)
    with pytest.raises(RecipeError, match=f"^{re.escape(words)}$"):
        TrainingRun(recipe, tmp_path / "run", device="cpu")
    assert not (tmp_path / "run").exists()


def test_a_step_with_a_teacher_is_one_graph():
    torch.manual_seed(0)
    network, told = (scumble.build("edsr-x2", features=8, blocks=1) for _ in range(2))
    optimizer = torch.optim.Adam(network.parameters())
    step = TrainStep(network, optimizer, F.l1_loss, torch.bfloat16, teacher=Teacher(told, 0.5))
    degraded, clean = torch.rand(2, 3, 12, 12), torch.rand(2, 3, 24, 24)
    plain = step.objective(degraded, clean)
    graph = torch.compile(step.objective, fullgraph=True, backend="eager")
    torch.testing.assert_close(graph(degraded, clean), plain)


def test_a_teacher_in_half_precision_teaches_in_that_of_the_run(tmp_path):
    path = tmp_path / "half.safetensors"
    scumble.save(scumble.build("edsr-x2", features=8, blocks=1).half(), path)
    recipe = small_recipe(make_photos(tmp_path / "photos"), teacher=str(path), steps=2)
    assert trained(recipe, tmp_path / "run")
