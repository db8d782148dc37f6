import json
import subprocess
import sys

import numpy as np
import pytest
import torch
from PIL import Image

import scumble
from scumble.errors import (
    CheckpointError,
    DataError,
    EngineError,
    ImageError,
    MetricError,
    NetworkError,
    UnknownNameError,
)
from scumble.evaluate import evaluate
from scumble.scoring import Bicubic
from tests.training.photos import make_photos


@pytest.fixture
def photos(tmp_path):
    return make_photos(tmp_path / "photos", count=3)


@pytest.fixture
def model(tmp_path):
    scumble.save(scumble.build("edsr-x2", features=8, blocks=1), tmp_path / "n.safetensors")
    return str(tmp_path / "n.safetensors")


def test_the_mean_is_that_of_the_pictures(photos, model):
    report = evaluate(model, photos)
    found = report.to_json()
    assert found["protocol"] == "sr-y-x2"
    assert len(found["pictures"]) == 3
    each = [scores["psnr"] for scores in found["pictures"].values()]
    assert found["mean"]["psnr"] == pytest.approx(sum(each) / 3)
    assert found["cost"]["parameters"] == report.cost.cost.parameters
    assert "mean of 3" in str(report)
    assert "PSNR and SSIM on Y" in str(report)


def test_tiles_change_no_score(photos, model):
    whole = evaluate(model, photos).evaluation.mean
    tiled = evaluate(model, photos, tile=16).evaluation.mean
    assert tiled["psnr"] == pytest.approx(whole["psnr"], abs=1e-3)


def test_a_network_that_sees_the_whole_picture_is_not_tiled(photos, tmp_path):
    path = tmp_path / "rfdn.safetensors"
    scumble.save(scumble.build("rfdn-x2", features=8, attention=4, blocks=1), path)
    with pytest.raises(
        NetworkError, match="Rfdn sees the whole picture at once, so tiles would change"
    ):
        evaluate(str(path), photos, tile=16)


def test_a_bad_picture_is_named_and_the_rest_is_scored(photos, model):
    (photos / "bad.png").write_bytes(b"no picture")
    report = evaluate(model, photos)
    assert report.failed
    assert len(report.evaluation.scored) == 3
    assert "bad.png" in str(report)
    with pytest.raises(ImageError, match="bad.png"):
        evaluate(model, photos, strict=True)


def test_a_protocol_of_another_scale_is_refused(photos, model):
    with pytest.raises(NetworkError, match="sr-y-x4 needs a network of x4, got edsr-x2"):
        evaluate(model, photos, "sr-y-x4")


def test_bicubic_is_a_model_too(photos):
    report = evaluate("bicubic", photos, "sr-y-x2")
    assert report.cost is None
    with pytest.raises(NetworkError, match="^bicubic runs without an engine, got cpu; leave it"):
        evaluate("bicubic", photos, "sr-y-x2", engine="cpu")
    assert report.evaluation.mean["psnr"] > 30
    enlarged = Bicubic(2)(torch.full((1, 3, 4, 5), 0.2))
    torch.testing.assert_close(enlarged, torch.full((1, 3, 8, 10), 0.2))


def test_a_picture_too_small_for_the_protocol_is_named_and_the_rest_is_scored(photos, model):
    small = make_photos(photos / "small", count=1, side=8) / "photo0.png"
    report = evaluate(model, photos)
    assert report.failed
    assert len(report.evaluation.scored) == 3
    (failed,) = report.evaluation.failed
    assert failed.failure is not None
    assert failed.failure.startswith(f"{small}: ")
    with pytest.raises(MetricError, match=f"{small}: "):
        evaluate(model, photos, strict=True)


def test_a_picture_too_small_for_the_network_is_named_and_the_rest_is_scored(photos, tmp_path):
    path = tmp_path / "rfdn.safetensors"
    scumble.save(scumble.build("rfdn-x2", features=8, attention=4, blocks=1), path)
    small = make_photos(photos / "small", count=1, side=20) / "photo0.png"
    report = evaluate(str(path), photos)
    assert len(report.evaluation.scored) == 3
    (failed,) = report.evaluation.failed
    assert f"{small}: Rfdn cannot be run on 14x10 pixels: " in str(failed.failure)


@pytest.fixture
def exact(photos):
    """Bicubic restores this one to the last bit."""
    flat = Image.fromarray(np.full((40, 48, 3), 120, np.uint8))
    flat.save(photos / "flat.png")
    return "flat.png"


def test_a_picture_restored_exactly_is_named_and_not_in_the_mean_of_its_psnr(photos, exact):
    report = evaluate("bicubic", photos, "sr-y-x2")
    scores = {picture.name: picture.scores for picture in report.evaluation.scored}
    assert scores[exact]["psnr"] == float("inf")
    others = [score["psnr"] for name, score in scores.items() if name != exact]
    assert report.evaluation.mean["psnr"] == pytest.approx(sum(others) / 3)
    all_four = [score["ssim"] for score in scores.values()]
    assert report.evaluation.mean["ssim"] == pytest.approx(sum(all_four) / 4)
    told = str(report).splitlines()
    assert f"restored exactly, so without a PSNR and not in its mean: {exact}" in told
    assert f"{exact:<24} psnr inf  ssim 1.0000" in told


def test_json_has_null_for_what_is_infinite(photos, exact):
    for name in ("photo0.png", "photo1.png", "photo2.png"):
        (photos / name).unlink()
    report = evaluate("bicubic", photos, "sr-y-x2")
    found = json.loads(json.dumps(report.to_json(), allow_nan=False))
    assert found["pictures"][exact] == {"psnr": None, "ssim": 1.0}
    assert found["mean"] == {"psnr": None, "ssim": 1.0}
    assert "mean of 1                psnr inf  ssim 1.0000" in str(report).splitlines()


def test_what_failed_and_what_was_skipped_is_counted(photos, model):
    assert "failed: 0" not in str(evaluate(model, photos))
    make_photos(photos / "small", count=1, side=8)
    for name in ("a.png", "b.png"):
        (photos / name).write_bytes(b"no picture")
    assert str(evaluate(model, photos)).splitlines()[-2] == "failed: 1, skipped: 2"


def test_weights_of_others_are_scored_as_the_network_that_they_belong_to(photos, model, tmp_path):
    path = tmp_path / "theirs.pth"
    torch.save(scumble.load(model).state_dict(), path)
    found = evaluate(str(path), photos, network="edsr-x2,features=8,blocks=1")
    assert found.evaluation == evaluate(model, photos).evaluation
    with pytest.raises(CheckpointError, match="say which network it belongs to"):
        evaluate(str(path), photos)
    with pytest.raises(CheckpointError, match="does not hold this Rfdn"):
        evaluate(str(path), photos, network="rfdn-x2")


@pytest.mark.parametrize("known", ["bicubic", "carn-x4"])
def test_a_model_that_is_known_needs_no_network_beside_it(photos, known):
    told = (
        f"only files of others need to be told the network that they belong to, got edsr-x2 for "
        f"{known}; leave it out"
    )
    with pytest.raises(NetworkError, match=f"^{told}$"):
        evaluate(known, photos, network="edsr-x2")


def test_a_folder_without_one_usable_picture_has_no_mean(tmp_path, model):
    for name in ("a.png", "b.png"):
        (tmp_path / name).write_bytes(b"no picture")
    with pytest.raises(DataError, match=f"none of 2 pictures in {tmp_path} could .*a.png"):
        evaluate(model, tmp_path)


def test_a_device_that_is_not_there_is_refused(photos, model, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    for name in ("cuda", "tpu"):
        with pytest.raises(NetworkError, match="cuda"):
            evaluate(model, photos, device=name)


def test_every_picture_is_told_when_it_is_done(photos, model):
    told = []
    evaluate(model, photos, told=lambda done, total: told.append((done, total)))
    assert told == [(1, 3), (2, 3), (3, 3)]


def test_every_engine_gives_the_same_scores(photos, model):
    found = {name: evaluate(model, photos, engine=name) for name in ("cpu", "reference")}
    assert {report.engine for report in found.values()} == {"cpu", "reference"}
    assert found["cpu"].to_json()["engine"] == "cpu"
    assert "; engine cpu" in str(found["cpu"])
    ours, plain = (found[name].evaluation.mean for name in ("cpu", "reference"))
    assert ours == pytest.approx(plain, abs=1e-4)
    assert evaluate(model, photos).engine == "cpu"


def test_an_engine_that_cannot_run_the_network_is_refused(photos, tmp_path):
    double = tmp_path / "double.safetensors"
    scumble.save(scumble.build("edsr-x2", features=8, blocks=1).double(), double)
    with pytest.raises(EngineError, match="computes in float32, this network is in float64"):
        evaluate(str(double), photos, engine="cpu")
    with pytest.raises(UnknownNameError, match="Did you mean 'cpu'"):
        evaluate(str(double), photos, engine="cpux")


def test_where_no_engine_is_needed_none_is_loaded(photos):
    code = (
        "import sys; from scumble.evaluate import evaluate; import scumble.training.run; "
        f"evaluate('bicubic', {str(photos)!r}, 'sr-y-x2'); sys.exit('llvmlite' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_picture_that_the_engine_cannot_take_is_run_in_pytorch(photos, tmp_path, caplog):
    path = tmp_path / "rfdn.safetensors"
    scumble.save(scumble.build("rfdn-x2", features=8, attention=4, blocks=1), path)
    make_photos(photos / "small", count=1, side=28)
    report = evaluate(str(path), photos)
    (failed,) = report.evaluation.failed
    assert "Rfdn cannot be run on 18x14 pixels: " in str(failed.failure)
    assert "Output size is too small" in str(failed.failure)
    assert "a picture of 18x14 is run in PyTorch: Rfdn does something else" in caplog.text
    (refused,) = evaluate(str(path), photos, engine="cpu").evaluation.failed
    assert "does something else for pictures of 18x14 than for others" in str(refused.failure)
