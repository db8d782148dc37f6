"""``scumble zoo``: the trained networks that come with the package."""

import json

import typer

from scumble.cli.options import JsonOption


def zoo(as_json: JsonOption = False) -> None:
    """List the trained networks that come with the package."""
    import scumble.zoo

    known = scumble.zoo.manifest()
    if as_json:
        typer.echo(json.dumps(known, indent=2))
        return
    for name, entry in known.items():
        megabytes = scumble.zoo.find(name).stat().st_size / 1e6
        typer.echo(f"{name}, {megabytes:.1f} MB: {entry['trained']}")
        if "started_from" in entry:
            typer.echo(f"  started from: {entry['started_from']['trained']}")
        if "teacher" in entry:
            typer.echo(f"  taught by: {entry['teacher']}")
        typer.echo(f"  trained on {entry['data']} ({entry['licence']})")
        for protocol, scores in entry["results"].items():
            told = "  ".join(f"{data} {psnr:.2f}" for data, psnr in scores.items())
            typer.echo(f"  {protocol}: {told}")
