import os
from pathlib import Path

import pytest

from scumble.errors import RestoreError
from scumble.restore import OVERWRITE, RESUME, Form, make_plan
from tests.restore.photos import image, nearest


def photo(path: Path, **options) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    image(8, 9).save(path, **options)
    return path


def targets(plan, root: Path) -> list[str]:
    return [job.target.relative_to(root).as_posix() for job in plan.jobs]


def test_a_folder_keeps_its_order_and_names(tmp_path):
    for name in ("b.jpg", "a b.png", "sub/ü.webp", "sub/deep/c.TIFF", ".hidden.png", "notes.txt"):
        (tmp_path / "in" / name).parent.mkdir(parents=True, exist_ok=True)
        if name == "notes.txt":
            (tmp_path / "in" / name).write_text("no picture")
        else:
            photo(tmp_path / "in" / name)
    flat = make_plan([tmp_path / "in"], tmp_path / "out", Form())
    assert targets(flat, tmp_path / "out") == ["a b.png", "b.jpg"]
    assert (flat.ignored, flat.closed) == (1, 1)
    deep = make_plan([tmp_path / "in"], tmp_path / "out", Form("png"), recursive=True)
    assert targets(deep, tmp_path / "out") == ["a b.png", "b.png", "sub/ü.png", "sub/deep/c.png"]


def test_a_name_that_lies_about_its_format_is_set_right(tmp_path):
    image(8, 9).save(tmp_path / "a.jpg", "PNG")
    plan = make_plan([tmp_path / "a.jpg"], tmp_path / "out", Form())
    assert targets(plan, tmp_path / "out") == ["a.png"]


def test_other_endings_of_jpegs_are_known(tmp_path):
    (tmp_path / "in").mkdir()
    image(8, 9).save(tmp_path / "in" / "a.jfif")
    plan = make_plan([tmp_path / "in"], tmp_path / "out", Form())
    assert targets(plan, tmp_path / "out") == ["a.jpg"]


def test_several_folders_keep_apart(tmp_path):
    for name in ("one/a.png", "two/a.png"):
        photo(tmp_path / name)
    plan = make_plan([tmp_path / "one", tmp_path / "two"], tmp_path / "out", Form())
    assert targets(plan, tmp_path / "out") == ["one/a.png", "two/a.png"]


def test_one_photo_may_become_one_file(tmp_path):
    photo(tmp_path / "a.jpg")
    (result,) = nearest().folder(tmp_path / "a.jpg", tmp_path / "b.png")
    assert result.target == tmp_path / "b.png"
    assert result.target.read_bytes().startswith(b"\x89PNG")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.jpg", "b.png"]


def test_three_hundred_folders_deep(tmp_path):
    deep = Path(*["d"] * 300)
    photo(tmp_path / "in" / deep / "a.png")
    (result,) = nearest().folder(tmp_path / "in", tmp_path / "out", recursive=True)
    assert result.status == "done"
    assert (tmp_path / "out" / deep / "a.png").exists()


def test_results_inside_the_folder_of_photos_are_no_photos(tmp_path):
    photo(tmp_path / "a.png")
    for _ in range(2):
        batch = nearest().folder(tmp_path, tmp_path / "out", recursive=True, existing=OVERWRITE)
        assert [result.source.name for result in batch] == ["a.png"]


def refusal(tmp_path, *inputs, output=None, form=None, recursive=False) -> str:
    with pytest.raises(RestoreError) as caught:
        make_plan(list(inputs), output or tmp_path / "out", form or Form(), recursive)
    return str(caught.value).replace(f"{tmp_path}/", "")


def test_nothing_to_do_is_said(tmp_path):
    (tmp_path / "in" / "sub").mkdir(parents=True)
    assert refusal(tmp_path) == "restoring needs a picture or a folder of pictures, got none"
    assert refusal(tmp_path, tmp_path / "no") == "there is no file or folder no"
    assert refusal(tmp_path, tmp_path / "in") == (
        "there are no pictures in in; add -r to look into the folders inside"
    )


def test_a_result_on_its_own_photo_is_refused(tmp_path):
    photo(tmp_path / "in" / "a.png")
    assert refusal(tmp_path, tmp_path / "in", output=tmp_path / "in") == (
        "the results of in need a folder of their own, got the same; give another one with -o"
    )
    assert refusal(tmp_path, tmp_path / "in/a.png", output=tmp_path / "in") == (
        "the result of in/a.png would replace the input in/a.png; give another folder with -o"
    )
    assert "would replace the input" in refusal(
        tmp_path, tmp_path / "in/a.png", output=tmp_path / "in/a.png"
    )


def test_a_result_on_a_photo_by_another_name_is_refused(tmp_path):
    photo(tmp_path / "in" / "a.png")
    (tmp_path / "out").mkdir()
    os.link(tmp_path / "in" / "a.png", tmp_path / "out" / "a.png")
    assert "would replace the input in/a.png" in refusal(tmp_path, tmp_path / "in")
    (tmp_path / "again").symlink_to(tmp_path / "in")
    assert "would replace the input" in refusal(
        tmp_path, tmp_path / "in/a.png", output=tmp_path / "again"
    )


def test_two_photos_on_one_result_are_refused(tmp_path):
    photo(tmp_path / "in" / "a.png")
    photo(tmp_path / "in" / "a.jpg")
    assert refusal(tmp_path, tmp_path / "in", form=Form("png")) == (
        "in/a.jpg and in/a.png would both become out/a.png; rename one, or restore them one after "
        "the other into different folders"
    )


def test_links_do_not_lead_out_of_the_results(tmp_path):
    photo(tmp_path / "in" / "sub" / "a.png")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "sub").symlink_to(tmp_path / "elsewhere")
    assert refusal(tmp_path, tmp_path / "in", recursive=True) == (
        "out/sub/a.png would be written through a link to elsewhere/a.png; remove the link, or "
        "give another folder with -o"
    )
    (tmp_path / "out" / "sub").unlink()
    (tmp_path / "out" / "sub").mkdir()
    (tmp_path / "out" / "sub" / "a.png").symlink_to(tmp_path / "elsewhere" / "b.png")
    assert "through a link to elsewhere/b.png" in refusal(tmp_path, tmp_path / "in", recursive=True)
    assert not any((tmp_path / "elsewhere").iterdir())


def test_dots_do_not_lead_out_of_the_results(tmp_path, monkeypatch):
    photo(tmp_path / "in" / "a.png")
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    plan = make_plan([Path("../in"), Path("../in/a.png")], Path("out"), Form())
    assert [job.target for job in plan.jobs] == [Path("out/in/a.png"), Path("out/a.png")]
    up = make_plan([Path("../in/../in"), Path("..")], Path("out"), Form(), recursive=True)
    assert all(job.target.resolve().is_relative_to(tmp_path / "work/out") for job in up.jobs)


def test_folders_that_are_links_are_not_followed(tmp_path):
    photo(tmp_path / "in" / "a.png")
    (tmp_path / "in" / "loop").symlink_to(tmp_path / "in")
    plan = make_plan([tmp_path / "in"], tmp_path / "out", Form(), recursive=True)
    assert targets(plan, tmp_path / "out") == ["a.png"]


def test_results_that_are_there_are_left_alone(tmp_path):
    photo(tmp_path / "in" / "a.png")
    for _ in nearest().folder(tmp_path / "in", tmp_path / "out"):
        pass
    with pytest.raises(RestoreError, match=r"a.png exists already; add --resume to keep what is"):
        nearest().folder(tmp_path / "in", tmp_path / "out")
    photo(tmp_path / "mine" / "a.png")
    with pytest.raises(RestoreError, match="exists and was not written by scumble restore"):
        nearest().folder(tmp_path / "in", tmp_path / "mine", existing=RESUME)
    with pytest.raises(RestoreError, match="going on is for folders of results"):
        nearest().folder(tmp_path / "in/a.png", tmp_path / "b.png", existing=RESUME)


def test_a_file_in_the_place_of_the_folder_is_refused(tmp_path):
    photo(tmp_path / "in" / "a.png")
    (tmp_path / "out").write_text("")
    assert refusal(tmp_path, tmp_path / "in") == (
        "out needs to be a folder, is a file; give another one with -o"
    )


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"format": "gif"}, "a format is keep, png, jpg, jpeg, webp, tiff, got 'gif'"),
        ({"quality": 0}, "a quality is 1 to 100, got 0"),
        ({"format": "png", "quality": 9}, "a quality is for JPEG and WebP, got one for png"),
    ],
)
def test_forms_that_make_no_sense_are_refused(options, told):
    with pytest.raises(RestoreError, match=told):
        Form(**options)


def test_a_file_name_and_a_format_that_differ_are_refused(tmp_path):
    photo(tmp_path / "a.png")
    assert refusal(tmp_path, tmp_path / "a.png", output=tmp_path / "b.jpg", form=Form("png")) == (
        "b.jpg is named as JPEG, and the format asked for is png; leave one of them out"
    )
