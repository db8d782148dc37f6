"""The options of ``scumble restore``."""

from pathlib import Path
from typing import Annotated

import typer

PhotosArgument = Annotated[
    list[Path] | None,
    typer.Argument(metavar="[PHOTO|FOLDER]...", help="Photos, folders of photos, videos."),
]
InputOption = Annotated[
    list[Path] | None, typer.Option("-i", "--input", help="The same, as an option; may repeat.")
]
OutputOption = Annotated[
    Path, typer.Option("-o", "--output", help="Folder of the results; of one photo also a file.")
]
ModelOption = Annotated[
    str | None,
    typer.Option("-n", "--model", help="A network of the zoo, or a file; by default carn-x4."),
]
ScaleOption = Annotated[
    int | None, typer.Option("-s", "--scale", min=1, help="What the network enlarges by.")
]
RecursiveOption = Annotated[
    bool, typer.Option("-r", "--recursive", help="Look into folders inside of folders.")
]
FormatOption = Annotated[str, typer.Option("--format", help="keep, png, jpg, webp or tiff.")]
QualityOption = Annotated[
    int | None, typer.Option(min=1, max=100, help="Of JPEG and WebP; by default 95.")
]
TileOption = Annotated[
    str, typer.Option(help="Side of the tiles in pixels; auto fits the free memory.")
]
ThreadsOption = Annotated[
    int | None, typer.Option(min=1, help="Threads of the engine; by default all cores.")
]
ResumeOption = Annotated[
    bool, typer.Option("--resume", help="Go on: keep what is done, do the rest.")
]
OverwriteOption = Annotated[
    bool, typer.Option("--overwrite", help="Write results again that are there.")
]
StripOption = Annotated[
    bool, typer.Option("--strip-metadata", help="Leave out all but the colour profile.")
]
TimesOption = Annotated[
    bool, typer.Option("--keep-times", help="Give results the file times of their photos.")
]
MegapixelsOption = Annotated[
    float, typer.Option(min=0, max=178, help="Refuse photos that hold more.")
]
DryOption = Annotated[
    bool, typer.Option("--dry-run", help="Say what would be done, and do nothing.")
]
RayOption = Annotated[
    str | None,
    typer.Option(
        metavar="[ADDRESS]",
        help="Restore on a Ray cluster: at an address, the one that runs, or local.",
    ),
]
