"""Published networks get the scores that are known of them."""

from fractions import Fraction

import pytest
import torch

from scumble.data.bicubic import resize
from scumble.data.images import read_rgb
from scumble.metrics.protocols import PROTOCOLS
from tests.foreign import load_rfdn_aim, load_rlfn

TOLERANCE = 0.01  # dB


def bicubic(small):
    return resize((small * 255).round().to(torch.uint8), 4) / 255


def mean_psnr(restore, folder):
    """The mean over a benchmark, whose small pictures are made by MATLAB's bicubic."""
    protocol = PROTOCOLS["sr-y-x4"]
    scores = []
    for path in sorted(folder.iterdir()):
        clean = protocol.crop(read_rgb(path))
        small = resize(clean, Fraction(1, 4)) / 255
        with torch.no_grad():
            scores.append(protocol.score(restore(small.unsqueeze(0))[0], clean)["psnr"])
    return sum(scores) / len(scores)


@pytest.mark.parametrize(("benchmark", "known"), [("Set5", 28.43), ("Set14", 26.09)])
def test_bicubic_scores_as_it_always_did(data, benchmark, known):
    assert mean_psnr(bicubic, data / "test" / benchmark) == pytest.approx(known, abs=TOLERANCE)


def test_rfdn_scores_as_published(data):
    network = load_rfdn_aim(data / "weights" / "RFDN_AIM.pth")
    assert mean_psnr(network, data / "test" / "Set5") == pytest.approx(32.16, abs=TOLERANCE)


def test_rlfn_scores_as_published(data):
    network = load_rlfn(data / "weights" / "rlfn_x4.pth")
    assert mean_psnr(network, data / "test" / "Set5") == pytest.approx(32.24, abs=TOLERANCE)
