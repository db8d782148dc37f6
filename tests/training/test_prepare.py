import re
from dataclasses import replace

import pytest
import torch
from safetensors.torch import save_file

import scumble
from scumble.data.images import to_uint8
from scumble.errors import RecipeError
from scumble.models import NetworkSpec
from scumble.scoring import Bicubic
from scumble.training.prepare import starting_network
from scumble.training.run import TrainingRun
from tests.training.photos import make_photos, small_recipe

SPEC = NetworkSpec.parse("edsr-x2,features=16,blocks=1")


def refused(words: str):
    return pytest.raises(RecipeError, match=f"^{re.escape(words)}$")


@pytest.mark.parametrize("ending", ["pth", "safetensors"])
def test_weights_of_others_are_a_start(tmp_path, ending):
    network, path = SPEC.build(), tmp_path / f"theirs.{ending}"
    state = network.state_dict()
    torch.save(state, path) if ending == "pth" else save_file(state, path)
    started = starting_network(SPEC, str(path))
    assert all(torch.equal(value, state[key]) for key, value in started.state_dict().items())


def test_a_start_of_other_arguments_says_which(tmp_path):
    path = tmp_path / "other.safetensors"
    scumble.save(scumble.build("edsr-x2", features=8, blocks=1), path)
    with refused(
        f"network.start needs to hold edsr-x2 with features=16, "
        f"but {path} holds edsr-x2 with features=8"
    ):
        starting_network(SPEC, str(path))


def test_a_start_of_another_network_is_named(tmp_path):
    path = tmp_path / "other.safetensors"
    scumble.save(scumble.build("edsr-x3", features=8, blocks=1), path)
    with refused(
        f"network.start needs to hold edsr-x2 with features=16, "
        f"but {path} holds edsr-x3 with features=8"
    ):
        starting_network(SPEC, str(path))
    scumble.save(scumble.build("rfdn-x2", features=8, attention=4, blocks=1), path)
    with refused(f"network.start needs to hold edsr-x2, but {path} holds rfdn-x2"):
        starting_network(SPEC, str(path))


def test_a_pruned_start_is_refused(tmp_path):
    path = tmp_path / "pruned.safetensors"
    scumble.save(scumble.finalize(scumble.sparsify(SPEC.build(), scumble.OneShot("2:16"))), path)
    with refused(
        f"network.start needs to hold a dense network, but {path} is pruned already; "
        f"give the one that it came from"
    ):
        starting_network(SPEC, str(path))


def test_pictures_restored_exactly_have_no_mean(tmp_path):
    photos = make_photos(tmp_path / "photos", count=12)
    recipe = small_recipe(photos)
    data = recipe.data.model_copy(update={"validation": 0.4})
    run = TrainingRun(recipe.model_copy(update={"data": data}), tmp_path / "run", device="cpu")
    prepared = run.prepared
    middles = list(prepared.validation)
    found = prepared.score(Bicubic(2))
    assert found is not None
    larger = [Bicubic(2)(small.unsqueeze(0) / 255)[0] for small, _ in middles]
    exact = [(small, to_uint8(large)) for (small, _), large in zip(middles, larger, strict=True)]
    assert replace(prepared, validation=[*middles, *exact]).score(Bicubic(2)) == found
    for nothing in (exact, []):
        assert replace(prepared, validation=nothing).score(Bicubic(2)) is None
