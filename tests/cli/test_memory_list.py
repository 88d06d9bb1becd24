"""`xscore memory list` of a large store: the newest on a page, all of them in JSON."""

import json

from tests.cli.conftest import Run, own_store
from tests.conftest import MakeRepo
from xscore.records.memory import Kind
from xscore.records.statement import Statement
from xscore.store.remembering import remember


def test_a_long_list_shows_the_newest_and_says_how_many_more(xscore: Run, make_repo: MakeRepo) -> None:
    """Fifty lines unless --limit says more, the newest of all layers; the rest is counted on stderr."""
    root = make_repo({"a.py": "x = 1\n"})
    with own_store(root) as store:
        for number in range(60):
            kind = Kind.DECISION if number % 2 else Kind.CONVENTION
            remember(store, Statement(text=f"word{number:03} is said", kind=kind), now=1_000.0 + number)
    listed = xscore("memory", "list", cwd=root)
    assert len(listed.stdout.splitlines()) == 50
    assert "word059" in listed.stdout and "word009" not in listed.stdout and "word010" in listed.stdout
    assert "10 older ones are not shown: `--limit 60` shows all" in listed.stderr
    assert len(xscore("memory", "list", "--limit", "3", cwd=root).stdout.splitlines()) == 3
    whole = xscore("memory", "list", "--limit", "60", cwd=root)
    assert len(whole.stdout.splitlines()) == 60 and "not shown" not in whole.stderr


def test_a_title_that_is_not_the_whole_text_is_marked(xscore: Run, make_repo: MakeRepo) -> None:
    """A first line with more below it, and a long text, end in an ellipsis; a short text does not."""
    root = make_repo({"a.py": "x = 1\n"})
    for text in ("Waits a minute.\n\nThe vendor says so.", "Waits " + "and waits " * 20, "Waits."):
        xscore("memory", "add", text, "--kind", "decision", cwd=root)
    listed = xscore("memory", "list", cwd=root).stdout.splitlines()
    assert sorted(line[-1] for line in listed) == [".", "…", "…"]


def test_the_command_shows_what_the_rules_select(xscore: Run, make_repo: MakeRepo) -> None:
    """A05: `memory list --match --reference` prints what matches, scored, best first, and nothing else."""
    root = make_repo({"src/retry.py": "x = 1\n"})
    for text, links in (
        ("we use tenacity", ("src/retry.py", "docs/net.md")),
        ("tenacity is pinned", ()),
        ("ports", ()),
    ):
        options = [part for link in links for part in ("--link", link)]
        xscore("memory", "add", text, "--importance", "1", *options, cwd=root)
    asked = ("--match", "tenacity", "--reference", "src/retry.py", "--reference", "docs/net.md")
    listed = xscore("memory", "list", *asked, cwd=root)
    assert [line.split()[0] for line in listed.stdout.splitlines()] == ["1.60", "1.00"], listed.stderr
    found = json.loads(xscore("memory", "list", *asked, "--json", cwd=root).stdout)["memories"]
    assert [(one["text"], one["score"]) for one in found] == [("we use tenacity", 1.6), ("tenacity is pinned", 1.0)]
    assert xscore("memory", "list", "--match", "nowhere", cwd=root).returncode == 1
