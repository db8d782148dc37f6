"""What is to be restored and where it goes; whatever would do harm is refused before the start."""

import os
import sys
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from scumble.data.decoding import decode_header
from scumble.data.encoding import ENDINGS
from scumble.errors import ImageError, RestoreError
from scumble.restore.form import KEEP, READ, Form
from scumble.restore.source import refuse_large
from scumble.restore.video import CONTAINERS, is_video, video_name, video_size

WORK = ".scumble"  # folder in OUT: what is done, and what is being written
FAILED = "failed.jsonl"

# Pictures that people have and that we do not read.
_FOREIGN = {
    ".gif": "GIF", ".heic": "HEIC", ".heif": "HEIF", ".avif": "AVIF", ".jxl": "JPEG XL",
    ".jp2": "JPEG 2000", ".psd": "Photoshop", ".svg": "SVG", ".dng": "raw", ".cr2": "raw",
    ".cr3": "raw", ".nef": "raw", ".arw": "raw", ".orf": "raw", ".rw2": "raw", ".raf": "raw",
}  # fmt: skip


@dataclass(frozen=True)
class Job:
    """One picture to restore, or the reason why it cannot be."""

    source: Path
    target: Path
    height: int = 0  # pixels of the source; none where it could not be read
    width: int = 0
    failure: str | None = None
    frames: int | None = None  # of a video

    @property
    def pixels(self) -> int:
        """Return how many pixels the source has, in all of its frames."""
        return self.height * self.width * (1 if self.frames is None else self.frames)


@dataclass(frozen=True)
class Plan:
    """All jobs of a batch, in order."""

    root: Path  # nothing is written outside of it
    jobs: tuple[Job, ...]
    whole_folder: bool  # whether ``root`` is a folder of results; else one file is written
    ignored: int = 0  # files that are no pictures
    closed: int = 0  # folders that were not looked into


@dataclass
class _Found:
    """Files as they are found: each with its place below OUT."""

    files: list[tuple[Path, Path]] = field(default_factory=list)
    ignored: int = 0
    closed: int = 0


def make_plan(inputs: Sequence[Path], output: Path, form: Form, recursive: bool = False) -> Plan:
    """Return what is to be done; refuse what must not be."""
    if not inputs:
        raise RestoreError("restoring needs a picture or a folder of pictures, got none")
    if len(inputs) == 1 and is_video(inputs[0]) and output.suffix.lower() in CONTAINERS:
        # Its segments need a folder that is found again.
        plan = Plan(output.parent, (_video_job(inputs[0], output),), whole_folder=True)
    elif len(inputs) == 1 and not inputs[0].is_dir() and _is_file_name(output):
        _refuse_other_ending(output, form)
        plan = Plan(output.parent, (_job(inputs[0], output, form),), whole_folder=False)
    else:
        found = _find(inputs, output, recursive)
        jobs = tuple(_jobs(found.files, output, form))
        plan = Plan(output, jobs, True, found.ignored, found.closed)
    _refuse_harm(plan)
    return plan


def _is_file_name(output: Path) -> bool:
    return output.suffix.lower() in ENDINGS and not output.is_dir()


def _refuse_other_ending(output: Path, form: Form) -> None:
    named = ENDINGS[output.suffix.lower()]
    if form.format != KEEP and form.format_of("") != named:
        raise RestoreError(
            f"{output} is named as {named}, and the format asked for is {form.format}; "
            f"leave one of them out"
        )


def _find(inputs: Sequence[Path], output: Path, recursive: bool) -> _Found:
    """Return the files of all inputs, those of several folders each under its folder's name."""
    found, out = _Found(), os.path.realpath(output)
    for path in inputs:
        if path.is_dir():
            if os.path.realpath(path) == out:
                raise RestoreError(
                    f"the results of {path} need a folder of their own, got the same; give "
                    f"another one with -o"
                )
            below = Path(path.resolve().name) if len(inputs) > 1 else Path()
            _look_into(path, below, out, recursive, found)
        elif path.exists() or path.is_symlink():
            found.files.append((path, Path(path.name)))
        else:
            raise RestoreError(f"there is no file or folder {path}")
    if not found.files:
        hint = "; add -r to look into the folders inside" if found.closed else ""
        raise RestoreError(f"there are no pictures in {', '.join(map(str, inputs))}{hint}")
    return found


def _look_into(folder: Path, below: Path, out: str, recursive: bool, found: _Found) -> None:
    """Collect the pictures of a folder, and of those inside that are no links."""
    waiting = [(folder, below)]
    while waiting:
        here, place = waiting.pop()
        try:
            entries = sorted(os.scandir(here), key=lambda entry: entry.name)
        except OSError as error:
            raise RestoreError(f"{here} cannot be read: {error.strerror or error}") from error
        inside = []
        for entry in entries:
            if entry.name.startswith("."):
                continue
            path = here / entry.name
            if entry.is_dir(follow_symlinks=False):
                if os.path.realpath(path) != out:
                    inside.append((path, place / entry.name))
            elif path.suffix.lower() in (*READ, *_FOREIGN):
                found.files.append((path, place / entry.name))
            else:
                found.ignored += 1
        if recursive:
            waiting += reversed(inside)
        else:
            found.closed += len(inside)


def _jobs(files: Iterable[tuple[Path, Path]], output: Path, form: Form) -> Iterator[Job]:
    for path, place in files:
        yield _job(path, output / place, form, rename=True)


def _job(path: Path, target: Path, form: Form, rename: bool = False) -> Job:
    """Return the job for one file, by what its first bytes say."""
    if is_video(path):
        return _video_job(path, target.with_name(video_name(target.name)))
    foreign = _FOREIGN.get(path.suffix.lower())
    if foreign is not None:
        told = f"{path} needs to be a PNG, JPEG, WebP, TIFF or BMP file, is {foreign}; convert it"
        return Job(path, target, failure=told)
    try:
        if not path.is_file():
            raise ImageError(f"{path} needs to be a file, is none")
        header = decode_header(path)
        if rename:
            target = target.with_name(form.name_of(path.name, header.format))
        refuse_large(path, header.height, header.width, form.max_megapixels)
    except ImageError as error:
        return Job(path, target, failure=str(error))
    return Job(path, target, header.height, header.width)


def _video_job(path: Path, target: Path) -> Job:
    try:
        height, width, frames = video_size(path)
    except ImageError as error:
        return Job(path, target, failure=str(error))
    return Job(path, target, height, width, frames=frames)


def _refuse_harm(plan: Plan) -> None:
    """Refuse results that would hit an input, each other, or something outside of OUT."""
    if plan.root.exists() and not plan.root.is_dir():
        raise RestoreError(f"{plan.root} needs to be a folder, is a file; give another one with -o")
    inputs = {os.path.realpath(job.source): job.source for job in plan.jobs}
    files = {_identity(job.source): job.source for job in plan.jobs}
    root, targets = os.path.realpath(plan.root), dict[str, Path]()
    for job in plan.jobs:
        if job.failure is not None:
            continue
        hit = inputs.get(os.path.realpath(job.target)) or (
            files.get(_identity(job.target)) if job.target.exists() else None
        )
        if hit is not None:
            raise RestoreError(
                f"the result of {job.source} would replace the input {hit}; give another folder "
                f"with -o"
            )
        other = targets.setdefault(_one_name(job.target), job.source)
        if other is not job.source:
            raise RestoreError(
                f"{other} and {job.source} would both become {job.target}; rename one, or restore "
                f"them one after the other into different folders"
            )
        refuse_outside(job.target, root)


def refuse_outside(target: Path, root: str) -> None:
    """Refuse a result that links would lead out of the folder of results, or onto a link."""
    parent = os.path.realpath(target.parent)
    if target.is_symlink() or (
        parent != root and not parent.startswith(root.rstrip("/\\") + os.sep)
    ):
        raise RestoreError(
            f"{target} would be written through a link to {os.path.realpath(target)}; remove the "
            f"link, or give another folder with -o"
        )


def _identity(path: Path) -> tuple[int, int] | None:
    """Return what is the same for two names of one file."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _one_name(path: Path) -> str:
    """Return the same word for names that the file system takes for one."""
    if sys.platform in ("darwin", "win32"):
        return unicodedata.normalize("NFC", str(path)).casefold()
    return str(path)
