"""Plots, and one page that holds them all."""

from scumble.report.write import write_report

__all__ = ["write_report"]
