"""What may be cited, in which forms, and which lines count as the same."""

import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.store.cited_decisions import CODE, decide, refresh, write
from tests.store.conftest import function
from xscore.platform import database
from xscore.platform.errors import UsageError
from xscore.platform.hashing import file_digest
from xscore.records.indexing import FileStamp
from xscore.records.memory import Citation
from xscore.store import file_rows
from xscore.store.cited_lines import WHOLE_FILE, FileLines
from xscore.store.citing import parse_citation
from xscore.store.encoded_files import encode_file
from xscore.store.store import Store


@pytest.mark.parametrize(
    ("changed", "same"),
    [
        (CODE.replace("\n", "\r\n"), True),
        (CODE.replace("\n", "\r"), True),
        (CODE.rstrip("\n"), True),
        (CODE.replace("1\n", "1  \t\n"), True),
        ("\ufeff" + CODE, True),
        (CODE.replace("    return n", "  return n"), False),
        (CODE.replace("n + 1", "n  + 1"), False),
        (CODE.replace("def retry(n):\n", "def retry(n):\n\n"), False),
    ],
)
def test_what_counts_as_the_same_lines(changed: str, same: bool) -> None:
    """Line ends, trailing blanks and byte order marks are no change; indentation and blank lines
    are."""
    cited_hash = FileLines(CODE.encode()).hash((4, 5))
    assert (FileLines(changed.encode()).find((4, 5), cited_hash) == (4, 5)) is same


def test_bytes_of_any_encoding_can_be_cited(store: Store) -> None:
    """Lines are never decoded: Latin-1 and broken UTF-8 work; UTF-16 has the same lines as in the
    index."""
    file = write(store, b"caf\xe9 = 1\n\xff\xfe broken\n")
    assert (
        parse_citation(store.root, "a.py:2").span_hash
        != parse_citation(store.root, "a.py:1").span_hash
    )
    memory = decide(store, "a.py:1")
    file.write_bytes(b"caf\xc3\xa9 = 1\n")
    assert refresh(store).stale == (memory.id,)
    assert FileLines("a\nb\n".encode("utf-16")).lines == [b"a", b"b"]


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from([b"a", b"b", b"", b"  c"]), min_size=1, max_size=12), st.data())
def test_a_span_is_found_where_it_is(body: list[bytes], data: st.DataObject) -> None:
    """A span is at its old place, or at the only place with the same lines, or lost."""
    first = data.draw(st.integers(1, len(body)))
    last = data.draw(st.integers(first, len(body)))
    cited_hash = FileLines(b"\n".join(body) + b"\n").hash((first, last))
    above = data.draw(st.lists(st.sampled_from([b"a", b"b", b""]), max_size=4))
    now = [*above, *body]
    span, length = body[first - 1 : last], last - first
    places = [
        (n, n + length)
        for n in range(1, len(now) - length + 1)
        if now[n - 1 : n + length] == span
    ]
    expected = places[0] if len(places) == 1 else None
    if (first, last) in places:
        expected = (first, last)
    assert FileLines(b"\n".join(now) + b"\n").find((first, last), cited_hash) == expected


def test_the_forms_of_a_citation(store: Store) -> None:
    """A path, a line, a range, an entity; from the root, from a folder in it, or absolutely."""
    file = write(store, name="src/a.py")
    entity = function("retry", path="src/a.py", start_line=4, end_line=5)
    stamp = FileStamp("src/a.py", 1, 1, file_digest(CODE.encode()), "python")
    with database.transaction(store.connection):
        file_rows.replace_files(store.connection, [encode_file(stamp, [entity])], ())
    file_hash, span = (
        FileLines(CODE.encode()).hash(WHOLE_FILE),
        FileLines(CODE.encode()).hash((4, 5)),
    )
    for text, expected in {
        "src/a.py": Citation("src/a.py", 0, 0, file_hash),
        "./src//a.py:4-5": Citation("src/a.py", 4, 5, span),
        f"{file}:4-5": Citation("src/a.py", 4, 5, span),
        "src/a.py::retry": Citation("src/a.py", 4, 5, span),
        "src/a.py:4": Citation("src/a.py", 4, 4, FileLines(CODE.encode()).hash((4, 4))),
    }.items():
        assert parse_citation(store.root, text, connection=store.connection) == expected
    assert parse_citation(store.root, "a.py:4-5", base=file.parent).path == "src/a.py"
    file.write_text(CODE + "\n")
    with pytest.raises(UsageError, match="has changed"):
        parse_citation(store.root, "src/a.py::retry", connection=store.connection)
    write(store, name="src/new.py")
    with pytest.raises(UsageError, match="not in the index"):
        parse_citation(store.root, "src/new.py::retry", connection=store.connection)


@pytest.mark.parametrize(
    ("cited", "message"),
    [
        ("missing.py", "is not there"),
        ("a.py:0-2", "has no lines 0-2"),
        ("a.py:0", "names no line"),
        ("a.py:0-0", "names no line"),
        ("a.py:5-4", "has no lines 5-4"),
        ("a.py:5-10", "has no lines 5-10: it has 9"),
        ("../outside.py", "is not inside"),
        ("/etc/passwd", "is not inside"),
        ("src/../../x", "is not inside"),
        (".env", "is a file of secrets"),
        ("id_rsa", "is a file of secrets"),
        (".git/config", "is not a source file"),
        (".GIT/config", "is not a source file"),
        ("real/.git/config", "is not a source file"),
        (".xscore/memory.db", "is not a source file"),
        ("link.py", "is a link"),
        ("linked/b.py", "is a link"),
        ("folder", "is not a regular file"),
        ("pipe", "is not a regular file"),
        ("binary.py:1-2", "has no lines 1-2: it has 1"),
        ("a.py::nothing", "without a store"),
        ("", "is not inside"),
        ("a\0b", "is not"),
    ],
)
def test_what_cannot_be_cited_says_why(store: Store, cited: str, message: str) -> None:
    """P01: a citation stays in the repository, follows no link, reads no secret file; a refusal has
    a remedy."""
    root = store.root.path
    write(store)
    write(store, b"\0\0", "binary.py")
    write(store, "KEY=1\n", ".env")
    write(store, "x\n", "real/b.py")
    (root / "folder").mkdir()
    (root.parent / "outside.py").write_text("x\n")
    (root / "link.py").symlink_to("a.py")
    (root / "linked").symlink_to("real")
    os.mkfifo(root / "pipe")
    with pytest.raises(UsageError, match=message) as caught:
        parse_citation(store.root, cited)
    assert caught.value.hint
