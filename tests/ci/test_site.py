"""The documentation site: built strictly from the pages as they are, and complete on disk."""

import re
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

import xscore
from tests.ci.fake_runner import ROOT

pytestmark = pytest.mark.verify


class Links(HTMLParser):
    """The ids of a page, its links and what it loads."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.ids, self.links, self.loads = set[str](), list[str](), list[str]()
        self.feed(page.read_text("utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collect them."""
        attributes = {name: value or "" for name, value in attrs}
        self.ids.add(attributes.get("id", ""))
        is_loaded = tag == "link" and attributes.get("rel") in ("stylesheet", "icon", "preload")
        for value in (attributes.get("href"), attributes.get("src")):
            if value:
                (self.loads if is_loaded or "src" in attributes else self.links).append(value)


def build(source: Path, target: Path) -> "subprocess.CompletedProcess[str]":
    """Build the site of a folder as `make site` does."""
    recipe = re.search(
        r"^site:.*\n\t(.*)$", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE
    )
    assert recipe and recipe[1].endswith(" --conf-dir ci/site . build/site")
    arguments = recipe[1].split()[1:-4]
    command = [
        sys.executable,
        *arguments,
        "--conf-dir",
        str(ROOT / "ci/site"),
        str(source),
        str(target),
    ]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[Path, Links]]:
    """Every page of the site, by its file."""
    out = tmp_path_factory.mktemp("site")
    done = build(ROOT, out)
    assert done.returncode == 0, done.stderr
    yield {page: Links(page) for page in out.rglob("*.html")}


def test_every_internal_link_leads_somewhere(pages: dict[Path, Links]) -> None:
    """Every page, fragment and file that a page links to exists, including the start page
    `index.html`."""
    broken, seen = [], 0
    for page, links in pages.items():
        for link in [*links.links, *links.loads]:
            parts = urlsplit(link)
            if parts.scheme or not (parts.path or parts.fragment):
                continue
            target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            seen += 1
            if not target.is_file() or (
                parts.fragment and unquote(parts.fragment) not in pages[target].ids
            ):
                broken.append(f"{page.name}: {link}")
    assert (broken, seen > 1_000) == ([], True)
    assert any(page.name == "index.html" for page in pages)


def test_a_page_loads_nothing_from_elsewhere(pages: dict[Path, Links]) -> None:
    """Fonts, scripts and styles are files of the site; so is the search index."""
    assert [
        load for links in pages.values() for load in links.loads if urlsplit(load).netloc
    ] == []
    home = next(page for page in pages if page.name == "index.html").parent
    styles = "".join(style.read_text("utf-8") for style in home.rglob("*.css"))
    assert not re.search(r"(@import|url\()\s*[\"']?(https?:)?//", styles)
    assert "claude-cod" in (home / "searchindex.js").read_text("utf-8")


def test_the_reference_has_every_public_name(pages: dict[Path, Links]) -> None:
    """Every public name of `xscore` is in the reference."""
    reference = next(links for page, links in pages.items() if page.name == "api.html")
    assert {f"xscore.{name}" for name in xscore.__all__} <= reference.ids


def test_a_broken_link_fails_the_build(tmp_path: Path) -> None:
    """The builder rejects a link to a missing page or a missing fragment."""
    (tmp_path / "README.md").write_text(
        "# Start\n\n[there](#start) [gone](docs/gone.md) [nowhere](#nowhere)\n"
    )
    done = build(tmp_path, tmp_path / "site")
    assert done.returncode != 0
    assert "docs/gone.md" in done.stderr
    assert "nowhere" in done.stderr
    assert "start'" not in done.stderr
