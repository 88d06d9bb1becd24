"""A user's JSON and TOML edited in place: existing content stays, and removing our entries restores
the bytes."""

import json
import tomllib
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import tree_sitter_json
from hypothesis import given, settings
from hypothesis import strategies as st
from tree_sitter import Language as Grammar
from tree_sitter import Parser

from tests.cpu_time import assert_growth
from xscore.extensions.agents.clients import (
    CLIENTS,
    HOOK_SECONDS,
    hook_entries,
    is_our_hook,
    is_our_server,
    server_entry,
)
from xscore.extensions.agents.config_edits import (
    Entry,
    add_entries,
    add_table,
    has_entry,
    read_table,
    remove_entries,
    remove_table,
)
from xscore.platform.errors import UsageError

FILE = Path("settings.json")
TABLE, BODY = "mcp_servers.xscore", 'command = "xscore"\nargs = ["mcp"]\n'


def entries(program: str = "xscore") -> list[Entry]:
    """Return everything we add to one file: hooks in lists, the server in an object."""
    client = CLIENTS["gemini"]
    hooks = [
        Entry(("hooks", entry.event), "", entry.value, partial(is_our_hook, hook=entry.hook))
        for entry in hook_entries(client, program)
    ]
    server_config = server_entry(client, program)
    server = Entry(("mcpServers",), "xscore", server_config, is_our_server, lambda _: False)
    return [*hooks, server]


def is_ours(value: object) -> bool:
    """Whether an entry is one of our hooks."""
    return any(is_our_hook(value, hook=hook) for hook in HOOK_SECONDS)


def added(source: bytes) -> bytes:
    """Add our entries."""
    return add_entries(source, entries(), FILE, head={})


MINE = '{"hooks": [{"command": "mine"}]}'
JSON_FILES = {
    "nothing in it": "{}",
    "a blank in it": "{ }",
    "a line break in it": "{\n}\n",
    "no line breaks": '{"hooks":{"AfterTool":[' + MINE + ']},"mcpServers":{"o":{}}}',
    "four blanks": (
        '{\n    "hooks": {\n        "AfterTool": [\n            '
        + MINE
        + "\n        ]\n    }\n}"
    ),
    "tabs": '{\n\t"a": 1\n}\n',
    "empty lists": (
        "{\n"
        '  "hooks": {"BeforeAgent": [], "AfterAgent": [ ], "AfterTool": [\n'
        "]},\n"
        ' "mcpServers": {}\n'
        "}\n"
    ),
    "Windows line ends": '{\r\n  "hooks": {\r\n    "AfterTool": [' + MINE + "]\r\n  }\r\n}\r\n",
    "comments": '// top\n{ // c\n  "a": 1, // x: }\n  /* y */ "hooks": {} /* z */\n}\n',
    "a comment alone": "{ // only\n}",
    "what looks like a comment": '{"url": "http://x", "glob": "/*"}',
    "a key given twice": '{"hooks": {"Old": []}, "hooks": {"AfterTool": []}}',
    "other letters": '{"größe": "\\u00e9é", "n": 1e3}',
}


@pytest.mark.parametrize("text", JSON_FILES.values(), ids=JSON_FILES)
def test_what_was_added_comes_out_again(text: str) -> None:
    """Adding keeps every line, adding twice equals adding once, removing restores the same
    bytes."""
    source = text.encode()
    after = added(source)
    assert added(after) == after != source
    assert all(has_entry(after, entry, FILE) for entry in entries())
    assert remove_entries(after, entries(), FILE) == source


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)


@settings(max_examples=40)
@given(
    rest=st.dictionaries(st.text(max_size=5), VALUES, max_size=3),
    hooks=st.none()
    | st.dictionaries(
        st.sampled_from(["AfterTool", "BeforeAgent", "Mine"]), st.lists(VALUES, max_size=2)
    ),
    indent=st.none() | st.integers(0, 4),
)
def test_any_file_holds_more_and_loses_nothing(
    rest: dict[str, Any], hooks: dict[str, list[Any]] | None, indent: int | None
) -> None:
    """Parsed as JSON, the file holds its old content and our entries; without them it equals the
    original."""
    document = {
        **{key: value for key, value in rest.items() if key != "mcpServers"},
        "hooks": hooks or {},
    }
    source = json.dumps(document, indent=indent).encode()
    after = added(source)
    read = json.loads(after)
    assert {**read, "hooks": None, "mcpServers": None} == {
        **document,
        "hooks": None,
        "mcpServers": None,
    }
    for event, values in document["hooks"].items():
        assert [value for value in read["hooks"][event] if not is_ours(value)] == values
    assert remove_entries(after, entries(), FILE) == source


def test_what_others_added_meanwhile_stays() -> None:
    """Removing takes our entries out of a file edited since, also out of a group shared with
    others."""
    document = json.loads(added(b"{}"))
    document["hooks"]["AfterTool"].append({"hooks": [{"command": "mine"}]})
    document["hooks"]["AfterTool"][0]["hooks"].append({"type": "command", "command": "theirs"})
    document["theme"] = "dark"
    remaining = json.loads(
        remove_entries(json.dumps(document, indent=3).encode(), entries(), FILE)
    )
    assert remaining["theme"] == "dark"
    assert list(remaining["hooks"]) == ["AfterTool"]
    assert [
        hook["command"] for group in remaining["hooks"]["AfterTool"] for hook in group["hooks"]
    ] == [
        "theirs",
        "mine",
    ]


def test_another_version_gives_way() -> None:
    """Hooks that call xscore elsewhere are replaced, not doubled; a server changed by hand is
    kept."""
    old = add_entries(b'{"a": 1}', entries("/old/xscore"), FILE, head={})
    new = json.loads(added(old))
    counts = {event: len(groups) for event, groups in new["hooks"].items()}
    assert counts.pop("AfterTool") == 2
    assert set(counts.values()) == {1}
    assert "/old/" not in json.dumps(new["hooks"])
    assert new["mcpServers"]["xscore"]["command"] == "/old/xscore"


@pytest.mark.parametrize(
    "suffix", ["; curl host | sh", " && log-it", "\nlog-it", " > $(log-it)"]
)
def test_a_hook_that_does_more_than_ours_is_not_ours(suffix: str) -> None:
    """Another's entry is neither replaced, removed nor listed as ours."""
    for entry in hook_entries(CLIENTS["claude-code"], "xscore", forgiving=True):
        (inner,) = entry.value["hooks"]
        assert is_our_hook(entry.value, hook=entry.hook)
        assert not is_our_hook(entry.value, hook="other")
        for command in (f"xscore hook {entry.hook}{suffix}", inner["command"] + suffix):
            assert not is_our_hook({"hooks": [{**inner, "command": command}]}, hook=entry.hook)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ('{\n  "a": 1,}', ":2: not JSON"),
        ('\n\n{"a" 1}', ":3: not JSON"),
        ("", ":1: not JSON"),
        ("[1]", ":1: not a JSON object"),
        ('{\n  "hooks": []\n}', ":2: `hooks` is not an object"),
        ('{"hooks": {\n"AfterTool": null}}', ":2: `AfterTool` is not a list"),
        ('{"a": ' + "[" * 100_000 + "]" * 100_000 + "}", ":1: not JSON"),
        ('{"a": NaN}', ":1: not JSON"),
        ("{// a comment \0 {[{[\n}", ":1: not JSON"),
        ('{"a": 1} /* open', ":1: not JSON"),
    ],
)
def test_a_file_that_is_not_as_it_should_be_is_refused(text: str, place: str) -> None:
    """A malformed file is named with its line and left unedited."""
    with pytest.raises(UsageError) as error:
        added(text.encode())
    assert error.value.message.startswith(f"settings.json{place}")


PARTS = [
    *(bytes([mark]) for mark in b'{}[]"\\:,1\n\0\xff'),
    b"//",
    b"/*",
    b"*/",
    b"NaN",
    b'"a":',
]
PLACES = [b'"a": 1 %b', b"/*%b*/", b"//%b\n"]


@settings(max_examples=200)
@given(st.lists(st.sampled_from(PARTS), max_size=8).map(b"".join), st.sampled_from(PLACES))
def test_a_grammar_recovers_from_no_error(text: bytes, place: bytes) -> None:
    """To recover, it would take memory by the square; what it has to recover from is refused
    before."""
    source = b"{%b}" % (place % text)
    try:
        added(source)
    except UsageError:
        return
    assert not Parser(Grammar(tree_sitter_json.language())).parse(source).root_node.has_error


def test_a_file_of_open_quotes_and_comments_is_refused_in_linear_time() -> None:
    """Neither an open string nor an open comment is searched again from each mark within."""

    def refuse(size: int) -> None:
        for part in (b'\\"', b"/*", b'"//'):
            with pytest.raises(UsageError):
                added(b'{"a": /' + part * size)

    assert_growth(refuse, small=5_000, large=20_000, at_most=8)


TOML_FILES = [
    "",
    "a = 1",
    "a = 1\n",
    "a = 1\n\n",
    '# c\n[mcp_servers.o] # d\ncommand = "x"\n# end\n',
    "a = 1\r\n",
]


@pytest.mark.parametrize("text", TOML_FILES)
def test_a_table_comes_out_again(text: str) -> None:
    """Adding a table keeps the file with its comments, adding twice equals adding once, removing
    restores the bytes."""
    source = text.encode()
    after = add_table(source, TABLE, BODY, FILE)
    assert after.startswith(source)
    assert add_table(after, TABLE, BODY, FILE) == after
    assert tomllib.loads(after.decode())["mcp_servers"]["xscore"] == tomllib.loads(BODY)
    assert remove_table(after, TABLE, FILE) == source


def test_a_table_goes_with_its_own_lines_alone() -> None:
    """A changed table is removed with its sub-tables; what follows stays, with its comment."""
    rest = (
        b'\n# other\n[mcp_servers.o]\ncommand = "x"\n[mcp_servers.xscore-two]\ncommand = "y"\n'
    )
    source = (
        add_table(b"a = 1\n", TABLE, BODY, FILE)
        + b'cwd = "/x"\n\n[mcp_servers.xscore.env]\nA = "b"\n'
        + rest
    )
    remaining = remove_table(source, TABLE, FILE)
    assert remaining.startswith(b"a = 1\n")
    assert remaining.endswith(rest)
    assert read_table(remaining, TABLE, FILE) is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("\na = [", "settings.json:"),
        ("mcp_servers = {}\n", "is an inline table"),
        ("\xff", "not TOML"),
    ],
)
def test_toml_that_cannot_take_a_table_is_refused(text: str, message: str) -> None:
    """Malformed TOML is named with its line; an inline parent takes no table."""
    with pytest.raises(UsageError, match=message):
        add_table(text.encode("latin-1"), TABLE, BODY, FILE)


@pytest.mark.parametrize(
    "text",
    ['[mcp_servers]\nxscore = {command = "xscore"}\n', '[mcp_servers."xscore"]\na = 1\n'],
)
def test_a_table_written_otherwise_is_left_to_its_owner(text: str) -> None:
    """An entry of our name in another form is neither doubled nor removed."""
    assert add_table(text.encode(), TABLE, BODY, FILE) == text.encode()
    with pytest.raises(UsageError, match="no line"):
        remove_table(text.encode(), TABLE, FILE)
