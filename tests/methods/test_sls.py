import pytest
import torch
from torch.nn.functional import l1_loss

import scumble
from scumble.core.budget import Pressure
from scumble.core.cost import macs
from scumble.errors import BudgetError, NetworkError, RecipeError
from scumble.methods.sls import SLS
from tests.networks import Tiny, keep_only, picture

# Prunes within a few dozen steps.
HASTY = {"m": 16, "pressure": 1e-4, "rerank_every": 3, "look_every": 4}


def train(sparse, steps, lr=0.02):
    optimizer = torch.optim.Adam(sparse.parameters(), lr=lr)
    clean = picture()
    for step in range(steps):
        loss = l1_loss(sparse(clean), clean) + sparse.pruning.penalty()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        sparse.pruning.step()
        if sparse.pruning.reached:
            return step
    return steps


def test_training_meets_the_budget_and_then_leaves_the_patterns_alone():
    sparse = scumble.sparsify(Tiny(), SLS(budget="1/4", **HASTY), size=(12, 10))
    assert sparse.pruning.kept == 1
    assert train(sparse, 200) < 200
    patterns = sparse.pruning.patterns
    assert sparse.pruning.kept <= 0.25
    assert sparse.pruning.penalty() == 0
    train(sparse, 30)
    assert sparse.pruning.patterns == patterns


def test_landing_spends_what_the_last_step_saved_too_much():
    torch.manual_seed(1)
    crossed, landed = (
        scumble.sparsify(Tiny(), SLS(budget="3/10", land=land, **HASTY), size=(12, 10))
        for land in (False, True)
    )
    landed.load_state_dict(crossed.state_dict())
    for sparse in (crossed, landed):
        torch.manual_seed(2)
        train(sparse, 300)
    assert crossed.pruning.kept < landed.pruning.kept <= 0.3
    assert 0.3 - landed.pruning.kept < 0.01


def test_the_budget_counts_the_picture_it_was_given():
    sparse = scumble.sparsify(Tiny(), SLS(budget="1/4", **HASTY), size=(12, 10))
    positions = {"down": 30, "shared": 60, "odd": 30}
    counted = {
        name: macs(sparse.get_submodule(name).weight.shape, p) for name, p in positions.items()
    }
    assert list(sparse.pruning.layers) == list(positions)
    assert sparse.pruning.dense == sum(counted.values())
    assert sparse.pruning.target == 0.25


def test_pressure_means_loss_per_mac_of_the_patch():
    for size in ((12, 12), (48, 24)):
        method = SLS(m=16, pressure=1e-9, patch=(24, 24))
        sparse = scumble.sparsify(Tiny(), method, size=size)
        patch = scumble.sparsify(Tiny(), method, size=(24, 24)).pruning.dense
        assert sparse.pruning.penalty().item() == pytest.approx(1e-9 * patch, rel=1e-6)


def test_the_papers_pressure_is_for_losses_of_0_to_255():
    assert SLS().pressure * 255 == pytest.approx(1e-10)


def test_the_penalty_pushes_every_score_down():
    sparse = scumble.sparsify(Tiny(), SLS(m=16), size=(12, 10))
    sparse.pruning.penalty().backward()
    assert bool((sparse.pruning.table.scores.grad > 0).all())


def test_pressure_grows_only_while_pruning_stalls():
    method = SLS(m=16, budget="1/4", growth=2, look_every=5, min_progress=0.2)
    sparse = scumble.sparsify(Tiny(), method, size=(12, 10))
    pruning, first = sparse.pruning, sparse.pruning.pressure_now.item()
    for _ in range(5):
        pruning.step()
    assert pruning.pressure_now.item() == pytest.approx(2 * first)
    with torch.no_grad():
        pruning.table.scores[:, 7] = 0
    for _ in range(5):
        pruning.step()
    assert pruning.kept == 0.5
    assert pruning.pressure == Pressure(method.pressure * 2, 0.5)


def test_ranks_are_renewed_on_time():
    sparse = scumble.sparsify(Tiny(), SLS(m=16, rerank_every=2), size=(12, 10))
    before = sparse.down.ranks.clone()
    with torch.no_grad():
        sparse.down.weight.copy_(sparse.down.weight.flip(1))
    sparse.pruning.step()
    assert torch.equal(sparse.down.ranks, before)
    sparse.pruning.step()
    assert torch.equal(sparse.down.ranks, before.flip(1))


def test_a_budget_in_macs_is_of_the_whole_network():
    sparse = scumble.sparsify(Tiny(), SLS(m=16, budget=250e3), size=(12, 10))
    whole = scumble.inspect(Tiny(), (12, 10)).cost.paper_macs
    rest = whole - sparse.pruning.dense
    assert sparse.pruning.target == pytest.approx((250e3 - rest) / sparse.pruning.dense)


@pytest.mark.parametrize(
    ("budget", "sentence"),
    [
        ("1/20", "budget 1/20 leaves 0.0500 .* 1 weight in 16 everywhere keeps 0.0625"),
        (10e9, "budget 10 GMACs is above the .* GMACs of the whole network"),
        (8, "budget 8e-09 GMACs is not above the .* GMACs of the layers that stay dense anyway"),
    ],
)
def test_budgets_that_cannot_be_met_are_refused(budget, sentence):
    with pytest.raises(BudgetError, match=sentence):
        scumble.sparsify(Tiny(), SLS(m=16, budget=budget), size=(12, 10))


def test_the_papers_text_is_an_option():
    method = SLS.as_published(m=8, budget="1/8")
    assert (method.min_progress, method.progress, method.ceiling) == (0.1, "share", 1.0)
    assert (method.rerank_every, method.land) == (10_000, False)


def test_an_interrupted_search_goes_on_as_if_it_had_not_been():
    method = SLS(budget="1/4", **HASTY)
    straight = scumble.sparsify(Tiny(), method, size=(12, 10))
    resumed = scumble.sparsify(Tiny(), method, size=(12, 10))

    def steps(sparse, count):
        for _ in range(count):
            loss = sparse(fixed).abs().mean() + sparse.pruning.penalty()
            grads = torch.autograd.grad(loss, list(sparse.parameters()))
            with torch.no_grad():
                for parameter, grad in zip(sparse.parameters(), grads, strict=True):
                    parameter.sub_(0.02 * grad.sign())
            sparse.pruning.step()

    fixed = picture()
    steps(straight, 7)
    resumed.load_state_dict(straight.state_dict())
    steps(straight, 20)
    steps(resumed, 20)
    for key, value in straight.state_dict().items():
        assert torch.equal(value, resumed.state_dict()[key]), key
    assert resumed.pruning.pressure == straight.pruning.pressure


def test_a_step_brings_scores_back_into_their_range():
    sparse = scumble.sparsify(Tiny(), SLS(m=16, ceiling=1.01), size=(12, 10))
    with torch.no_grad():
        sparse.pruning.table.scores.fill_(1.5)
    sparse.pruning.step()
    assert sparse.pruning.table.scores.max().item() == pytest.approx(1.01)


def test_every_setting_reaches_its_place():
    method = SLS(m=16, ceiling=1.0, progress="share", growth=1.5, min_progress=0.3, check_every=3)
    pruning = scumble.sparsify(Tiny(), method, size=(12, 10)).pruning
    assert pruning.table.ceiling == 1.0
    assert pruning.schedule.progress == "share"
    assert (pruning.schedule.growth, pruning.schedule.min_progress) == (1.5, 0.3)
    with torch.no_grad():
        pruning.table.scores.zero_()
    pruning.step()
    pruning.step()
    assert not pruning.reached
    pruning.step()
    assert pruning.reached


def test_a_frozen_state_and_an_earlier_one_both_load_right():
    method = SLS(m=16, budget="1/4")
    searching, frozen = (scumble.sparsify(Tiny(), method, size=(12, 10)) for _ in range(2))
    early = {key: value.clone() for key, value in searching.state_dict().items()}
    keep_only(frozen, 4)
    late = {key: value.clone() for key, value in frozen.state_dict().items()}
    before = searching.pruning.penalty().item()
    searching.load_state_dict(late)
    assert searching.pruning.reached
    assert searching.pruning.penalty() == 0
    searching.load_state_dict(early)
    assert not searching.pruning.reached
    assert searching.pruning.penalty().item() == before > 0


def test_scores_that_are_no_numbers_do_not_count_as_a_budget_met():
    sparse = scumble.sparsify(Tiny(), SLS(m=16), size=(12, 10))
    with torch.no_grad():
        sparse.pruning.table.scores.fill_(float("nan"))
    with pytest.raises(NetworkError, match="scores of the search are no numbers any more"):
        sparse.pruning.step()


def test_the_record_has_the_scores_when_the_budget_was_met():
    sparse = scumble.sparsify(Tiny(), SLS(m=16, budget="1/4"), size=(12, 10))
    with torch.no_grad():
        sparse.pruning.table.scores.fill_(0.7)
    sparse.pruning.step()
    with torch.no_grad():
        sparse.pruning.table.scores.fill_(0.9)
    record = sparse.pruning.record()
    assert set(record.scores["down"]) == {0.7}


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"growth": 1.0}, "SLS needs a growth above 1, got 1.0"),
        ({"pressure": float("nan")}, "SLS needs numbers that are finite"),
        ({"pressure": 0.0}, "a pressure above 0, got 0.0"),
        ({"patch": (0, 0)}, r"a patch of height and width, such as \(48, 48\), got \(0, 0\)"),
        ({"patch": "48"}, "a patch of height and width"),
        ({"progress": "speed"}, "progress 'ratio' or 'share', got 'speed'"),
        ({"min_progress": -1.0}, "min_progress of at least 0"),
        ({"ceiling": 0.3}, "a ceiling above 0.5, got 0.3"),
        ({"look_every": 0}, r"steps of at least 1, got \(0, 1\)"),
        ({"rerank_every": -1}, "rerank_every of at least 0, got -1"),
        ({"m": 1}, "groups of 2 to 256, got m=1"),
    ],
)
def test_settings_that_cannot_work_are_refused(settings, sentence):
    with pytest.raises(RecipeError, match=sentence):
        SLS(**settings)


def test_a_budget_in_macs_reads_back_from_its_settings():
    method = SLS(budget=13.02e9, patch=(256, 128))
    assert SLS(**method.settings()) == method


def test_without_annealing_the_pressure_stays():
    method = SLS(m=16, budget="1/4", growth=2, look_every=1, anneal=False)
    pruning = scumble.sparsify(Tiny(), method, size=(12, 10)).pruning
    first = pruning.pressure_now.item()
    for _ in range(3):
        pruning.step()
    assert pruning.pressure == Pressure(method.pressure)
    assert pruning.pressure_now.item() == first > 0


def test_ranks_that_are_never_renewed_stay_those_of_the_start():
    sparse = scumble.sparsify(Tiny(), SLS(m=16, rerank_every=0), size=(12, 10))
    before = sparse.down.ranks.clone()
    with torch.no_grad():
        sparse.down.weight.copy_(sparse.down.weight.flip(1))
    for _ in range(3):
        sparse.pruning.step()
    assert torch.equal(sparse.down.ranks, before)


def independent(budget):
    sparse = scumble.sparsify(Tiny(), SLS(m=16, budget=budget, ordered=False), size=(12, 10))
    scores = sparse.pruning.table.scores
    with torch.no_grad():
        scores.zero_()
        scores[:, 4] = 0.8  # rank 5
        scores[:, 9] = 0.45  # rank 10, the first to come back
    return sparse


def test_without_order_a_smaller_weight_may_outlive_a_larger_one():
    sparse = independent("1/8")
    assert sparse.pruning.kept == 0.125
    before, x = sparse.down.ranks, picture()
    during = sparse(x)
    sparse.pruning.step()
    assert sparse.pruning.reached
    plain = scumble.finalize(sparse)
    expected = (before == 0) | (before == 5)
    assert torch.equal(plain.down.weight != 0, expected)
    assert {str(pattern) for pattern in sparse.pruning.patterns.values()} == {"2:16"}
    torch.testing.assert_close(plain(x), during)


def test_without_order_landing_reopens_the_rank_of_the_highest_priority():
    sparse = independent("3/16")
    sparse.pruning.step()
    assert sparse.pruning.kept == pytest.approx(3 / 16)
    ranks = sparse.down.ranks
    expected = (ranks == 0) | (ranks == 5) | (ranks == 10)
    assert torch.equal(scumble.finalize(sparse).down.weight != 0, expected)


def test_a_search_without_order_trains_to_its_budget_and_is_saved(tmp_path):
    sparse = scumble.sparsify(Tiny(), SLS(budget="1/4", ordered=False, **HASTY), size=(12, 10))
    assert train(sparse, 200) < 200
    pruned, x = scumble.finalize(sparse), picture()
    scumble.save(pruned, tmp_path / "pruned.safetensors")
    assert torch.equal(scumble.load(tmp_path / "pruned.safetensors", Tiny())(x), pruned(x))


def test_one_step_without_order_by_hand():
    """A layer of four weights: task and cost meet in the score of each rank alone."""
    network = torch.nn.Sequential(torch.nn.Conv2d(4, 5, 1, bias=False))
    with torch.no_grad():
        network[0].weight.copy_(torch.tensor([3.0, -4, 2, 1]).repeat(5, 1).view(5, 4, 1, 1))
    method = SLS(m=4, budget="1/4", pressure=0.5, patch=(1, 1), ordered=False)
    sparse = scumble.sparsify(Around(network), method, size=(1, 1))
    sparse.pruning.table.scores.data.copy_(torch.tensor([[0.9, 0.2, 0.6]]))
    out = sparse(torch.ones(1, 3, 1, 1))
    assert out.flatten().tolist() == [3.0 - 4 + 1] * 5  # rank 2 is closed: without the 2
    (out.sum() + sparse.pruning.penalty()).backward()
    # d out / d gate of ranks 1, 2, 3 over five outputs, and 0.5 x 5 MACs of each rank.
    expected = [5 * 3 + 2.5, 5 * 2 + 2.5, 5 * 1 + 2.5]
    assert sparse.pruning.table.scores.grad.flatten().tolist() == expected


class Around(torch.nn.Module):
    """Gives its inner network four channels of ones."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return self.inner(torch.nn.functional.pad(x, (0, 0, 0, 0, 0, 1), value=1.0))
