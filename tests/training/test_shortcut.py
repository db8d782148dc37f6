import torch

from scumble.training.shortcut import pruning_recipe


def test_a_few_words_make_a_whole_recipe(tmp_path):
    recipe = pruning_recipe("carn-x4", tmp_path, "sls", "1/8", 32, 60_000, device="cpu")
    assert (recipe.network.name, recipe.network.start) == ("carn-x4", "carn-x4")
    assert (recipe.prune.budget, recipe.prune.look_every, recipe.prune.rerank_every) == (
        "1/8",
        250,
        1000,
    )
    assert recipe.train.precision == "fp32"


def test_a_short_run_does_everything_more_often(tmp_path):
    recipe = pruning_recipe("carn-x4", tmp_path, "sls", "1/8", 32, 600, ["train.lr=1e-3"])
    assert (recipe.prune.look_every, recipe.prune.rerank_every, recipe.prune.check_every) == (
        2,
        10,
        1,
    )
    assert (recipe.train.lr, recipe.train.ema) == (1e-3, 0.99)


def test_a_gpu_trains_in_half_precision(tmp_path, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    recipe = pruning_recipe("carn-x4", tmp_path, "oneshot", "1/8", 32, 100)
    assert recipe.train.precision == "bf16"
