"""The HTML page of a report."""

from xscore.cost_reports.page.page import render_page

__all__ = ["render_page"]
