"""The public names: adding one is a decision, removing one takes a release of warning."""

import json
from pathlib import Path

import scumble

SURFACE = json.loads((Path(__file__).parent / "api_surface.json").read_text())


def test_the_public_names_are_the_published_ones():
    assert sorted(scumble.__all__) == SURFACE


def test_every_public_name_is_there():
    for name in scumble.__all__:
        assert getattr(scumble, name) is not None
    assert dir(scumble) == sorted(scumble.__all__)
