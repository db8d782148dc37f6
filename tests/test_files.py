import os
import stat

import pytest

from scumble.files import atomic_write


def test_a_file_appears_whole(tmp_path):
    with atomic_write(tmp_path / "a") as file:
        file.write(b"half")
        assert not (tmp_path / "a").exists()
        file.write(b" and half")
    assert (tmp_path / "a").read_bytes() == b"half and half"
    assert [entry.name for entry in tmp_path.iterdir()] == ["a"]


def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path):
    (tmp_path / "a").write_bytes(b"old")

    def fail():
        with atomic_write(tmp_path / "a") as file:
            file.write(b"new")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert (tmp_path / "a").read_bytes() == b"old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["a"]


def test_permissions_are_those_of_an_ordinary_file(tmp_path):
    old = os.umask(0o027)
    try:
        with atomic_write(tmp_path / "new") as file:
            file.write(b"")
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o640
    (tmp_path / "new").chmod(0o600)
    with atomic_write(tmp_path / "new") as file:
        file.write(b"again")
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o600
