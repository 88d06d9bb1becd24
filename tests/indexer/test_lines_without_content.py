"""Lines without content of their own join a neighbouring memory."""

from textwrap import dedent

import pytest

from tests.indexer.conftest import pieces_of, unseen_lines
from xscore.records.memory import Kind


def named(path: str, text: str) -> list[str]:
    """Return the entities of a file; assert that no line is lost."""
    assert unseen_lines(path, text) == []
    return list(pieces_of(path, text))


def test_keywords_and_banners_between_entities_are_no_memories() -> None:
    """`else:` joins the function above, a heading comment the one below."""
    text = dedent("""\
        if fast:
            def f():
                return 1
        else:
            def f():
                return 2

        # Timeout errors

        class Late(Exception):
            pass

        LIMIT = 3
        """)
    assert named("pkg/a.py", text) == ["module:start", "f", "f#2", "Late", "module:LIMIT"]
    pieces = pieces_of("pkg/a.py", text)
    assert pieces["f"].text.endswith("else:") and pieces["Late"].text.startswith(
        "# Timeout errors"
    )


def test_an_export_of_what_stands_above_is_no_memory() -> None:
    """`export default Name` and `module.exports = Name` join a neighbour; an export of another name
    is a memory."""
    text = "'use strict';\n\nfunction spread(f) {\n  return f;\n}\n\nmodule.exports = spread;\n"
    assert named("lib/spread.js", text) == ["spread"]
    assert len(named("lib/a.js", text.replace("= spread", "= wrap(spread)"))) == 2
    two = (
        "class Axios {\n"
        "  get() {\n"
        "    return 1;\n"
        "  }\n"
        "}\n\n"
        "function bind(f) {\n"
        "  return f;\n"
        "}\n\n"
        "export default "
    )
    assert named("lib/Axios.js", f"{two}Axios;\n") == ["Axios", "Axios.get", "bind"]


def test_imports_of_a_test_file_are_no_memory() -> None:
    """The judge reads cards of tests, and a card of imports would be empty; a block with a call
    stays."""
    text = 'import httpx\n\nURL = "x"\n\n\ndef test_get():\n    httpx.get(URL)\n'
    assert named("tests/test_get.py", text) == ["test_get"]
    assert named("pkg/get.py", text) == ["module:URL", "test_get"]
    assert named("tests/test_get.py", text.replace('"x"', "httpx.URL(1)")) == [
        "module:URL",
        "test_get",
    ]


@pytest.mark.parametrize("rule", ["-" * 6, ""])
def test_a_heading_alone_goes_with_the_section_below(rule: str) -> None:
    """A heading alone joins what follows, at any level; the last one of a file stays."""
    text = f"# One\n\nwords here\n\n## Two\n\n{rule}\n\n## Three\n\nmore words\n\n## Four\n"
    assert named("a.md", text) == ["One", "One > Three", "One > Four"]
    assert pieces_of("a.md", text)["One > Three"].text.startswith("## Two")


def test_labels_above_the_first_heading_go_with_its_section() -> None:
    """`.. currentmodule:: click` and `.. _options:` are no memory; prose above a heading is one."""
    text = ".. _options:\n\n.. currentmodule:: click\n\nOptions\n=======\n\nWords of options.\n"
    assert named("docs/options.rst", text) == ["Options"]
    assert named("docs/options.rst", "Words first.\n\n" + text) == ["Words first.", "Options"]


def test_a_row_alone_in_settings_goes_with_the_block_below() -> None:
    """`name: Publish` above a long block joins it."""
    text = "name: Publish\n\njobs:\n" + "".join(f"  step{number}: run\n" for number in range(6))
    assert named(".github/workflows/a.yml", text) == ["jobs"]


CHANGE = """Bugfix: Show ETA correctly when it is longer than a day

The ETA of a backup wrapped around after a day, so that it was shown as too short.
It now shows the number of hours instead.

https://example.org/issue/2179
"""


@pytest.mark.parametrize(
    ("path", "text", "kind"),
    [
        ("README", "How to begin", Kind.DOC),
        ("notes.txt", "How to begin", Kind.DOC),
        (".gitignore", "*.log", Kind.TEXT),
        ("bin/release", "#!/bin/sh\necho hi", Kind.BLOCK),
        ("RELEASE", "#!/usr/bin/perl\nsay 1", Kind.TEXT),
        ("requirements.txt", "httpx", Kind.TEXT),
        ("changelog/unreleased/issue-2179", CHANGE, Kind.DOC),
        (
            "testdata/policy_keep_snapshots_36",
            '{\n  "time": "2014-11-22T10:20:30Z",\n  "tree": null\n}\n' * 9,
            Kind.TEXT,
        ),
        ("codemods/names", "alpha\nbeta gamma\n" * 9, Kind.TEXT),
    ],
)
def test_scripts_and_lists_are_no_documents(path: str, text: str, kind: Kind) -> None:
    """Plain text is prose if its name or its first lines say so; scripts, lists and data are
    text."""
    assert {piece.kind for piece in pieces_of(path, text).values()} == {kind}
