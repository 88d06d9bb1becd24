"""The report as one HTML file to look at."""

from xscore.cost_reports.page.page import render_page

__all__ = [
    "render_page",
]
