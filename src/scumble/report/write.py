"""From sources to a page and its plots on disk."""

from collections.abc import Callable, Sequence
from pathlib import Path

from scumble.errors import ComparisonError, ScumbleError
from scumble.files import atomic_write
from scumble.report.crops import Scene, scenes, side_by_side
from scumble.report.figures import layer_plots, progress_plots, trade_off_plots
from scumble.report.gather import gather
from scumble.report.page import render
from scumble.report.subjects import Subjects

MOST_NETWORKS = 3  # of which crops are shown


def write_report(
    sources: Sequence[str],
    output: Path,
    data: Sequence[str] = (),
    title: str | None = None,
    device: str | None = None,
    told: Callable[[str], None] = lambda _: None,
) -> list[str]:
    """Write a page about comparisons, runs and files, its plots beside it; return what is missing.

    Args:
        sources: folders of comparisons or runs, files, and networks of the zoo.
        output: the page; its plots lie in a folder called like it.
        data: folders of pictures to score runs and files on, and to take crops from.
        title: of the page.
        device: where to restore pictures.
        told: called with what goes on.
    """
    if output.suffix.lower() not in (".html", ".htm"):
        raise ComparisonError(f"{output} needs to end in .html; name the page so")
    about = gather(sources, data, device, told)
    told("looking into networks")
    trade_offs, progress = trade_off_plots(about), progress_plots(about)
    layers = layer_plots(about)
    shown, faults = _scenes(about, device, told)
    told("drawing")
    page = render(about, trade_offs, layers, progress, shown, title)
    for drawing in (*trade_offs, *layers, *progress):
        drawing.write(output.with_name(f"{output.stem}-plots"))
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(output) as file:
            file.write(page.encode())
    except OSError as error:
        raise ComparisonError(f"{output} cannot be written: {error.strerror}") from error
    return [*faults, *(fault for subject in about.subjects for fault in subject.faults)]


def _scenes(
    about: Subjects, device: str | None, told: Callable[[str], None]
) -> tuple[list[Scene], list[str]]:
    """Return the crops of the first set of pictures that is here, and why there are none."""
    made: list[Scene] = []
    faults: list[str] = []
    networks = dict.fromkeys(subject.place.network for subject in about.firsts)
    here = [data for data in about.found.data if _is_here(about, data)]
    for network in list(networks)[:MOST_NETWORKS]:
        subjects = [s for s in about.firsts if s.place.network == network]
        for data in here[:1]:
            folder = about.found.folders[data]
            try:
                chosen = side_by_side(subjects)
                made += scenes(network, chosen, data, folder, device, told)
            except (ScumbleError, OSError) as error:
                faults.append(f"no crops of {network}: {error}")
    return made, faults


def _is_here(about: Subjects, data: str) -> bool:
    folder = about.found.folders.get(data)
    return folder is not None and Path(folder).is_dir()
