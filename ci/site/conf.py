"""The documentation site: the same pages that a checkout shows, with an API reference out of the
docstrings.

`make site` writes `build/site`, which opens from disk: search, fonts and scripts are files of its
own. Any broken link, within a page too, is an error (`--fail-on-warning`). Sphinx and not MkDocs:
its search works from files as it is, its strict mode knows every reference, and core and theme are
maintained. Trade-off: it imports what it describes.
"""

import re
from importlib import import_module
from pathlib import Path
from typing import Any

import xscore

CHECKOUT = Path(__file__).resolve().parents[2]
START, API = "README", "ci/site/api"
SECTIONS = {
    "Manual": ("docs/*",),
    "Agents": ("docs/agents/*",),
    "Reference": (API, "docs/reference/*"),
    "Inside": (
        "docs/internals/*",
        "docs/internals/decisions/*",
        "CONTRIBUTING",
        "SECURITY",
        "CHANGELOG",
    ),
}
"""Heading in the sidebar -> its pages, as globs; the alphabet orders those of one glob."""

OTHERS = {
    "Events of a turn": (
        "xscore.records.events",
        ("StageBegan", "Progress", "Kept", "AnswerText", "Note"),
    ),
    "Providers": ("xscore.providers.provider", ("Provider",)),
    "Requests and replies": ("xscore.records.calls", ("Request", "Completion", "Usage")),
    "Judges by a function": ("xscore.providers.scripted", ("ScriptedProvider", "ShownMemory")),
    "Boosters": ("xscore.pipeline.boosts", ("BoostContext",)),
    "Boosts": ("xscore.records.judgment", ("Boost",)),
    "Embedders": ("xscore.extensions.vectors.embedders", ("Embedder",)),
    "Languages": ("xscore.indexer.languages", ("Language", "FileShape")),
    "Statements of a source": ("xscore.records.statement", ("Statement",)),
    "Listeners": ("xscore.pipeline.parts", ("ClosedTurn",)),
}
"""Heading in the reference -> module and names, below those of `xscore` itself."""

project, author, copyright = "xscore", "the xscore authors", "the xscore authors"  # noqa: A001  Sphinx reads `copyright` from this module
extensions = ["myst_parser", "sphinx.ext.autodoc"]
root_doc = START
include_patterns = [f"{page}.md" for pages in SECTIONS.values() for page in (START, *pages)] + [
    f"{API}.rst"
]
suppress_warnings = ["misc.highlighting_failure"]  # a crontab has no colors
default_role = "code"
myst_heading_anchors = 4
# Quotes and ellipses; a dash would turn `--max-usd` in prose into “–max-usd”.
smartquotes_action = "qe"
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_class_signature = "separated"
html_theme = "furo"
html_title = "xscore"
html_copy_source = False
html_show_search_summary = False  # a browser reads no other file from disk
html_show_sphinx = False
pygments_style, pygments_dark_style = "default", "github-dark"


def add_contents(_app: object, page: str, text: list[str]) -> None:
    """Give the start page its table of contents, and the reference its names."""
    if page == START:
        for heading, pages in SECTIONS.items():
            text[0] += (
                f"\n```{{toctree}}\n:caption: {heading}\n:hidden:\n:glob:\n\n"
                + "\n".join(pages)
                + "\n```\n"
            )
    if page == API:
        sections = {name: ("xscore", (name,)) for name in sorted(xscore.__all__)} | OTHERS
        for heading, (module, names) in sections.items():
            directives = "\n".join(_directive(module, name) for name in names)
            text[0] += f"\n{heading}\n{'-' * len(heading)}\n\n{directives}\n"


def _directive(module: str, name: str) -> str:
    if isinstance(getattr(import_module(module), name), type):
        return f".. autoclass:: {module}.{name}\n   :members:\n   :undoc-members:\n"
    return f".. autofunction:: {module}.{name}\n"


def break_lines(
    _app: object, _what: str, _name: str, _found: object, _options: object, lines: list[str]
) -> None:
    """Begin a paragraph where a docstring begins the line of a parameter, or says what is
    raised."""
    said = re.sub(r"\n(?=\w+: |Raises |Returns? )", "\n\n", "\n".join(lines))
    lines[:] = said.split("\n")


def open_at_the_start(app: Any, failed: BaseException | None) -> None:
    """Make `index.html` the start page."""
    if failed is None:
        (Path(app.outdir) / "index.html").write_text(
            f'<meta http-equiv="refresh" content="0; url={START}.html">\n'
        )


def setup(app: Any) -> None:
    """Called by Sphinx."""
    app.connect("source-read", add_contents)
    app.connect("autodoc-process-docstring", break_lines)
    app.connect("build-finished", open_at_the_start)
