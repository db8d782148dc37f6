"""The networks once more, written from the papers as functions of their state dicts."""

import pytest
import torch
import torch.nn.functional as F

import scumble

MEAN = torch.tensor([0.4488, 0.4371, 0.4040], dtype=torch.float64).view(1, 3, 1, 1)


def conv_of(state):
    def conv(x, name, **options):
        weight = state[f"{name}.weight"]
        options = {"padding": weight.shape[2] // 2} | options
        return F.conv2d(x, weight, state[f"{name}.bias"], **options)

    return conv


def edsr(state, x, scale, blocks):
    conv = conv_of(state)
    x = head = conv(x - MEAN, "head")
    for block in range(blocks):
        x = x + conv(conv(x, f"body.{block}.conv1").relu(), f"body.{block}.conv2")
    x = head + conv(x, f"body.{blocks}")
    for step in range(2 if scale == 4 else 1):
        x = F.pixel_shuffle(conv(x, f"up.{2 * step}"), 2 if scale == 4 else scale)
    return conv(x, "tail") + MEAN


def carn(state, x, scale):
    conv = conv_of(state)
    x = conv(x - MEAN, "head")
    outer = [x]
    for i in range(3):
        inner = [x]
        for j in range(3):
            name = f"body.stages.{i}.stages.{j}"
            inner.append((x + conv(conv(x, f"{name}.conv1").relu(), f"{name}.conv2")).relu())
            x = conv(torch.cat(inner, 1), f"body.stages.{i}.fusions.{j}.conv").relu()
        outer.append(x)
        x = conv(torch.cat(outer, 1), f"body.fusions.{i}.conv").relu()
    for step in range(2 if scale == 4 else 1):
        x = F.pixel_shuffle(conv(x, f"up.{3 * step}").relu(), 2 if scale == 4 else scale)
    return conv(x, "tail") + MEAN


def rfdn(state, x, scale, blocks):
    conv = conv_of(state)

    def attend(x, name):
        squeezed = conv(x, f"{name}.squeeze")
        coarse = F.max_pool2d(conv(squeezed, f"{name}.shrink", stride=2, padding=0), 7, 3)
        coarse = conv(conv(coarse, f"{name}.coarse1").relu(), f"{name}.coarse2").relu()
        coarse = F.interpolate(conv(coarse, f"{name}.coarse3"), x.shape[2:], mode="bilinear")
        return x * conv(coarse + conv(squeezed, f"{name}.skip"), f"{name}.expand").sigmoid()

    x = head = conv(x, "head")
    outputs = []
    for block in range(blocks):
        name, kept = f"blocks.{block}", []
        for i in range(3):
            kept.append(F.leaky_relu(conv(x, f"{name}.distill.{i}"), 0.05))
            x = F.leaky_relu(x + conv(x, f"{name}.refine.{i}"), 0.05)
        kept.append(F.leaky_relu(conv(x, f"{name}.last"), 0.05))
        x = attend(conv(torch.cat(kept, 1), f"{name}.fuse"), f"{name}.attention")
        outputs.append(x)
    x = F.leaky_relu(conv(torch.cat(outputs, 1), "fuse.0"), 0.05)
    return F.pixel_shuffle(conv(head + conv(x, "refine"), "up.0"), scale)


def lively(name, **arguments):
    """Return a network whose every activation meets both signs, loud enough to be heard."""
    network = scumble.build(name, **arguments).double()
    with torch.no_grad():
        for parameter in network.parameters():
            if parameter.dim() == 4:
                torch.nn.init.kaiming_normal_(parameter)
            else:
                parameter.normal_(std=0.3)
    return network


@pytest.mark.parametrize("scale", [2, 3, 4])
@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        (edsr, {"features": 8, "blocks": 2}),
        (carn, {"features": 8}),
        (rfdn, {"features": 8, "attention": 4, "blocks": 2}),
    ],
)
@torch.no_grad()
def test_a_network_computes_what_its_paper_says(function, arguments, scale):
    network = lively(function.__name__, scale=scale, **arguments)
    image = torch.rand(2, 3, 19, 23, dtype=torch.float64)
    blocks = {key: value for key, value in arguments.items() if key == "blocks"}
    expected = function(network.state_dict(), image, scale, **blocks)
    # The mean colour of the network was made in single precision.
    torch.testing.assert_close(network(image), expected, rtol=1e-6, atol=1e-6)
