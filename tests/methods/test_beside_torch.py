"""A network that is being pruned goes wherever torch's own networks go."""

import copy
import io
import os

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.utils.checkpoint

import scumble
from scumble.methods.base import GatedPruning
from tests.networks import Tiny, picture

METHODS = {
    "sls": scumble.SLS(m=16, budget="1/4"),
    "oneshot": scumble.OneShot("4:16"),
    "filter": scumble.Filter("1/2"),
    "sr-ste": scumble.SrSte("4:16"),
}


@pytest.fixture(params=METHODS)
def sparse(request):
    return scumble.sparsify(Tiny(), METHODS[request.param], size=(12, 10))


def gradients(network, x):
    network.zero_grad()
    (network(x).square().mean() + network.pruning.penalty()).backward()
    return {name: p.grad.clone() for name, p in network.named_parameters()}


def assert_same(ours, theirs, **tolerance):
    assert ours.keys() == theirs.keys()
    for name, value in ours.items():
        torch.testing.assert_close(value, theirs[name], **tolerance)


def test_a_deep_copy_is_another_network(sparse):
    twin, x = copy.deepcopy(sparse), picture()
    assert_same(gradients(twin, x), gradients(sparse, x), rtol=0, atol=0)
    assert twin.pruning.layers["down"] is twin.down
    if isinstance(sparse.pruning, GatedPruning):
        assert twin.down.table is twin.pruning.table
        assert twin.down.table is not sparse.down.table
    assert not {p.data_ptr() for p in twin.parameters()} & {
        p.data_ptr() for p in sparse.parameters()
    }


def test_channels_last_changes_nothing(sparse):
    x = picture()
    plain = gradients(sparse, x)
    sparse.to(memory_format=torch.channels_last)
    assert_same(gradients(sparse, x.to(memory_format=torch.channels_last)), plain)


def test_autocast_runs_the_convolutions_in_bf16(sparse):
    x = picture()
    with torch.autocast("cpu", torch.bfloat16):
        half = sparse(x)
    assert half.dtype == torch.bfloat16
    torch.testing.assert_close(half.float(), sparse(x), rtol=0.1, atol=0.05)
    half.float().sum().backward()
    assert sparse.down.weight.grad.dtype == torch.float32


@pytest.mark.filterwarnings("ignore")
def test_it_compiles_into_one_graph(sparse):
    x = picture()
    plain, expected = gradients(sparse, x), sparse(x)
    compiled = torch.compile(copy.deepcopy(sparse), fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(x), expected)
    assert_same(gradients(compiled, x), {f"_orig_mod.{k}": v for k, v in plain.items()})


def test_its_state_comes_back(sparse):
    file = io.BytesIO()
    torch.save(sparse.state_dict(), file)
    file.seek(0)
    other = copy.deepcopy(sparse)
    for parameter in other.parameters():
        torch.nn.init.constant_(parameter, 0.25)
    other.load_state_dict(torch.load(file, weights_only=True))
    x = picture()
    assert torch.equal(other(x), sparse(x))


def test_scores_stand_in_one_place():
    sparse = scumble.sparsify(Tiny(), METHODS["sls"], size=(12, 10))
    names = [name for name, _ in sparse.named_parameters() if "score" in name]
    assert names == ["pruning.table.scores"]
    assert sparse.pruning.table.scores.shape == (3, 15)


HASTY = scumble.SLS(m=16, budget="1/4", pressure=1e-4, rerank_every=2)


def _train_in_parallel(rank: int, port: int, results) -> None:
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    dist.init_process_group("gloo", rank=rank, world_size=2)
    for name, method in (METHODS | {"sls": HASTY}).items():
        results[name, rank] = _trained(rank, method)
    dist.destroy_process_group()


def _trained(rank: int, method) -> dict:
    torch.manual_seed(0)
    sparse = scumble.sparsify(Tiny(), method, size=(12, 10))
    parallel = torch.nn.parallel.DistributedDataParallel(sparse)
    optimizer = torch.optim.Adam(sparse.parameters(), lr=0.02)
    torch.manual_seed(rank)
    for _ in range(60):
        x = picture()
        loss = (parallel(x) - x).abs().mean() + sparse.pruning.penalty()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        sparse.pruning.step()
    return {key: value.numpy().copy() for key, value in sparse.state_dict().items()}


@pytest.mark.filterwarnings("ignore")
def test_two_processes_learn_the_same_network():
    with mp.Manager() as manager:
        results = manager.dict()
        port = 29400 + os.getpid() % 500
        mp.spawn(_train_in_parallel, args=(port, results), nprocs=2)
        found = dict(results)
    assert found["sls", 0]["pruning.table.frozen"]
    for name in METHODS:
        for key, value in found[name, 0].items():
            assert (value == found[name, 1][key]).all(), (name, key)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("kind", METHODS)
def test_a_captured_step_is_the_plain_step(kind):
    from scumble.training.step import CapturedStep, TrainStep

    torch.manual_seed(0)
    plain = scumble.sparsify(Tiny(), METHODS[kind], size=(12, 10)).cuda()
    captured = copy.deepcopy(plain)
    x = picture(batch=2).cuda()
    steps = [
        TrainStep(n, torch.optim.Adam(n.parameters(), capturable=True), torch.nn.functional.l1_loss)
        for n in (plain, captured)
    ]
    replay = CapturedStep(steps[1], x, x)
    for _ in range(5):
        steps[0](x, x)
        replay(x, x)
    assert_same(captured.state_dict(), plain.state_dict(), rtol=1e-4, atol=1e-5)


class Checkpointed(torch.nn.Module):
    """Forgets what its body computed and computes it again for the gradient."""

    def __init__(self):
        super().__init__()
        self.head = torch.nn.Conv2d(3, 16, 3)
        self.body = torch.nn.Sequential(torch.nn.Conv2d(16, 16, 3), torch.nn.ReLU())
        self.forgets = True

    def forward(self, x):
        x = self.head(x)
        if self.forgets:
            return torch.utils.checkpoint.checkpoint(self.body, x, use_reentrant=False)
        return self.body(x)


@pytest.mark.parametrize("kind", METHODS)
def test_activation_checkpointing_changes_nothing(kind):
    sparse, x = scumble.sparsify(Checkpointed(), METHODS[kind], size=(12, 10)), picture()
    forgetful = gradients(sparse, x)
    sparse.forgets = False
    assert_same(forgetful, gradients(sparse, x), rtol=0, atol=0)
