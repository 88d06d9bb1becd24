"""The report as one HTML file to look at."""

from xscore.cost_reports.page.page import render

__all__ = ["render"]
