"""What every test stands on."""

import os
from pathlib import Path

import pytest
import torch
from hypothesis import settings

settings.register_profile("scumble", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("scumble")

torch.set_num_threads(1)  # the tests themselves run side by side


@pytest.fixture(autouse=True)
def poison_empty_memory():
    """Fill fresh memory with NaN, so that whoever reads it unwritten is found out."""
    torch.use_deterministic_algorithms(True, warn_only=True)
    yield
    torch.use_deterministic_algorithms(False)


@pytest.fixture(autouse=True)
def same_chance():
    torch.manual_seed(0)


@pytest.fixture(scope="session")
def data() -> Path:
    """The folder of test pictures and golden files."""
    beside = Path(__file__).parents[2] / "shared" / "data"
    folder = Path(os.environ.get("SCUMBLE_DATA", beside))
    if not folder.is_dir():
        pytest.skip(f"needs the test data: set SCUMBLE_DATA to its folder ({folder} is none)")
    return folder
