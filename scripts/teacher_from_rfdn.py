"""Write the RFDN of the AIM 2020 challenge as a network of ours, to learn from.

    python -m scripts.teacher_from_rfdn RFDN_AIM.pth rfdn.safetensors

Theirs works on pictures in 0..255, ours on 0..1: the first layer and the last one take the factor.
"""

import argparse
from pathlib import Path

import torch
from tests.foreign import load_rfdn_aim

import scumble

LEVELS = 255


def main() -> None:
    """Write the network."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("weights", type=Path)
    parser.add_argument("output", type=Path)
    given = parser.parse_args()
    network = load_rfdn_aim(given.weights).network
    with torch.no_grad():
        network.head.weight *= LEVELS
        network.up[0].weight /= LEVELS
        network.up[0].bias /= LEVELS
    scumble.save(
        network,
        given.output,
        data="as its authors trained it for the AIM 2020 challenge",
        licence="MIT",
    )


if __name__ == "__main__":
    main()
