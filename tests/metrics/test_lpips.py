import pytest
import torch
import torch.nn.functional as F

from scumble.data.images import read_rgb
from scumble.errors import CheckpointError, MetricError
from scumble.metrics.lpips import Lpips
from scumble.metrics.protocols import PROTOCOLS
from tests.metrics.pictures import noise, scene

NAME = "lpips_alex_v0.1_full_fp16.pth"


@pytest.fixture(scope="module")
def trained(data) -> Lpips:
    return Lpips.from_file(data / "weights" / NAME)


@pytest.fixture
def random_weights(tmp_path):
    path = tmp_path / "random.pth"
    weights = {key: value.abs().half() for key, value in Lpips().state_dict().items()}
    torch.save(weights, path)
    return path


def batch(*pictures):
    return torch.stack(pictures) / 255


def step_by_step(weights, one, other):
    """LPIPS again, from its description."""
    mean, spread = torch.tensor([-0.030, -0.088, -0.188]), torch.tensor([0.458, 0.448, 0.450])
    pair = torch.stack([one, other]) / 255 * 2 - 1
    x = ((pair.movedim(1, -1) - mean) / spread).movedim(-1, 1)
    total = 0
    for stage, (index, stride, padding) in enumerate(
        [(0, 4, 2), (3, 1, 2), (6, 1, 1), (8, 1, 1), (10, 1, 1)]
    ):
        x = F.max_pool2d(x, 3, 2) if stage in (1, 2) else x
        kernel, bias = weights[f"features.{index}.weight"], weights[f"features.{index}.bias"]
        x = F.conv2d(x, kernel.float(), bias.float(), stride, padding).relu()
        seen, wanted = F.normalize(x, dim=1)
        importance = weights[f"lin{stage}.weight"].float().view(-1, 1, 1)
        total += ((seen - wanted) ** 2 * importance).sum(0).mean()
    return total.item()


def test_distances_are_those_of_the_description(random_weights):
    weights = torch.load(random_weights, weights_only=True)
    for one, other in [(noise(64, 47), scene(64, 47)), (scene(31, 31), 255 - scene(31, 31))]:
        ours = Lpips.from_file(random_weights)(batch(one), batch(other)).item()
        assert ours == pytest.approx(step_by_step(weights, one, other), rel=1e-5)
        assert ours > 1e-6


def test_the_trained_distances_are_those_of_the_description(data, trained):
    weights = torch.load(data / "weights" / NAME, weights_only=True)
    ours = trained(batch(noise(64, 64)), batch(scene(64, 64))).item()
    assert ours == pytest.approx(step_by_step(weights, noise(64, 64), scene(64, 64)), rel=1e-5)


def test_equal_pictures_are_at_distance_0_and_pairs_of_a_batch_are_apart(trained):
    distances = trained(batch(scene(64, 64), scene(64, 64)), batch(scene(64, 64), noise(64, 64)))
    assert distances.shape == (2,)
    assert distances[0] == 0
    assert distances[1] > 0.5


def test_distance_rises_with_noise_and_with_blur(data, trained):
    clean = read_rgb(data / "test" / "Set5" / "img_003.webp").unsqueeze(0) / 255
    stained = [(clean + level * torch.randn_like(clean)).clamp(0, 1) for level in (0.02, 0.1, 0.3)]
    blurred = [F.avg_pool2d(clean, k, 1, k // 2, count_include_pad=False) for k in (3, 5, 9)]
    for worse in (stained, blurred):
        distances = [trained(picture, clean).item() for picture in worse]
        assert 0.001 < distances[0] < distances[1] < distances[2] < 1.5


def test_gradients_flow_to_the_picture_and_not_to_the_weights(trained):
    restored = batch(noise(40, 40)).requires_grad_()
    trained(restored, batch(scene(40, 40))).sum().backward()
    assert restored.grad.isfinite().all()
    assert restored.grad.abs().sum() > 0
    assert not any(parameter.requires_grad for parameter in trained.parameters())


def test_gradients_are_finite_where_no_feature_answers(random_weights):
    metric = Lpips.from_file(random_weights)
    metric.features[10].bias.fill_(-1e6)
    restored = batch(noise(40, 40)).requires_grad_()
    metric(restored, batch(scene(40, 40))).sum().backward()
    assert restored.grad.isfinite().all()


def test_a_protocol_with_weights_scores_lpips_of_what_would_be_saved(random_weights):
    restored, clean = torch.rand(3, 40, 48), noise(40, 48)
    protocol = PROTOCOLS["gopro-rgb"].with_lpips(random_weights)
    scores = protocol.score(restored, clean)
    saved = protocol.prepare(restored)
    expected = Lpips.from_file(random_weights)(batch(saved), batch(clean)).item()
    assert scores == {
        **PROTOCOLS["gopro-rgb"].score(restored, clean),
        "lpips": pytest.approx(expected),
    }


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(CheckpointError) as refused:
        Lpips.from_file(tmp_path / "none.pth")
    assert str(refused.value) == (f"the weights of LPIPS: there is no file {tmp_path / 'none.pth'}")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "is not a whole file of torch's: it is empty"),
        (
            b"not weights",
            "is damaged or holds more than tensors, such as code to run; "
            "nothing of it was executed; save its state_dict instead",
        ),
        (
            b"PK\x03\x04 torn",
            "is not a whole file of torch's: PytorchStreamReader failed reading zip archive: "
            "not a ZIP archive",
        ),
    ],
)
def test_a_file_of_something_else_is_refused(tmp_path, content, reason):
    path = tmp_path / "broken.pth"
    path.write_bytes(content)
    with pytest.raises(CheckpointError) as refused:
        Lpips.from_file(path)
    assert str(refused.value) == f"the weights of LPIPS: {path} {reason}"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ([torch.zeros(1)], "needs to hold a state dict of tensors, got something else"),
        ({"epoch": 3}, "needs to hold plain tensors by name, got a int at 'epoch'"),
    ],
)
def test_anything_but_tensors_by_name_is_refused(tmp_path, content, reason):
    path = tmp_path / "other.pth"
    torch.save(content, path)
    with pytest.raises(CheckpointError) as refused:
        Lpips.from_file(path)
    assert str(refused.value) == f"the weights of LPIPS: {path} {reason}"


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_weights_that_are_no_numbers_are_refused(random_weights, number):
    weights = torch.load(random_weights, weights_only=True)
    weights["lin2.weight"][0] = number
    torch.save(weights, random_weights)
    with pytest.raises(CheckpointError) as refused:
        Lpips.from_file(random_weights)
    assert str(refused.value) == (
        f"LPIPS needs finite weights, but {random_weights} has others in lin2.weight"
    )


def with_less(weights):
    del weights["lin4.weight"]


def with_more(weights):
    weights["lin5.weight"] = torch.zeros(1)


def with_another_shape(weights):
    weights["features.3.bias"] = torch.zeros(64)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (with_less, "lin4.weight missing"),
        (with_more, "lin5.weight unexpected"),
        (with_another_shape, "features.3.bias (64,) instead of (192,) of another shape"),
    ],
)
def test_other_weights_are_refused_by_name(random_weights, change, told):
    weights = torch.load(random_weights, weights_only=True)
    change(weights)
    torch.save(weights, random_weights)
    with pytest.raises(CheckpointError) as refused:
        Lpips.from_file(random_weights)
    assert str(refused.value) == (
        f"LPIPS needs AlexNet's five convolutions and five linear layers, "
        f"but {random_weights} has other weights: {told}"
    )


def test_pictures_too_small_for_alexnet_are_refused():
    assert Lpips()(torch.zeros(1, 3, 31, 31), torch.zeros(1, 3, 31, 31)).shape == (1,)
    with pytest.raises(MetricError) as refused:
        Lpips()(torch.zeros(1, 3, 30, 40), torch.zeros(1, 3, 30, 40))
    assert str(refused.value) == "LPIPS needs pictures of at least 31x31 pixels, got 40x30"


@pytest.mark.parametrize(
    ("one", "other"), [((1, 3, 40, 40), (2, 3, 40, 40)), ((3, 40, 40),) * 2, ((1, 1, 40, 40),) * 2]
)
def test_anything_but_two_like_batches_is_refused(one, other):
    with pytest.raises(MetricError) as refused:
        Lpips()(torch.zeros(one), torch.zeros(other))
    assert str(refused.value) == (
        f"LPIPS needs two batches of RGB pictures [B, 3, H, W] of the same shape, "
        f"got {list(one)} and {list(other)}"
    )
