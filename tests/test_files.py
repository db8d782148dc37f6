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


def test_a_link_stays_and_its_target_is_replaced(tmp_path):
    (tmp_path / "real").mkdir()
    for target in (tmp_path / "real" / "old", tmp_path / "real" / "new"):
        link = tmp_path / f"to {target.name}"
        link.symlink_to(target)
        for text in (b"once", b"twice"):  # the first time, "new" is not there yet
            with atomic_write(link) as file:
                file.write(text)
        assert link.is_symlink()
        assert not target.is_symlink()
        assert target.read_bytes() == b"twice"
    assert sorted(entry.name for entry in (tmp_path / "real").iterdir()) == ["new", "old"]


def test_a_link_to_itself_is_refused(tmp_path):
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(OSError, match="it is a link that leads back to itself"):
        write(tmp_path / "loop")


def test_folders_and_pipes_are_refused_and_stay(tmp_path):
    with pytest.raises(IsADirectoryError) as refused:
        write(tmp_path)
    assert refused.value.strerror == "it is a folder, not a file"
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(FileExistsError) as refused:
        write(tmp_path / "pipe")
    assert refused.value.strerror == "it is a device or pipe, not a file"
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)
    assert [entry.name for entry in tmp_path.iterdir()] == ["pipe"]


def test_file_and_folder_both_reach_the_disk_in_that_order(tmp_path, monkeypatch):
    synced = []

    def fsync(handle):
        is_folder = stat.S_ISDIR(os.fstat(handle).st_mode)
        synced.append("folder" if is_folder else "file")
        # The file while it is still beside, complete; the folder once the file has its name.
        assert (tmp_path / "a").exists() == is_folder
        assert is_folder or os.fstat(handle).st_size == 4

    monkeypatch.setattr(os, "fsync", fsync)
    with atomic_write(tmp_path / "a") as file:
        file.write(b"text")
    assert synced == ["file", "folder"]


def write(path) -> None:
    with atomic_write(path) as file:
        file.write(b"text")
