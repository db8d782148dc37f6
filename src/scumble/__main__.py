"""``python -m scumble``."""

from scumble.cli.app import main

main()
