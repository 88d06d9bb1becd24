"""Mentions: the names in a task, and the memories that have them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cpu_time import assert_growth
from xscore.records.candidates import Candidate
from xscore.records.memory import Kind, Layer
from xscore.scorer.mentions import (
    FRAME,
    NEAR,
    Mentions,
    find_mentions,
    find_named,
    is_question,
    without_frames,
)

PYTHON_TRACE = """Traceback (most recent call last):
  File "/home/me/app/cli/main.py", line 12, in run
    ask()
  File "/home/me/app/cache/writer.py", line 31, in flush
    raise KeyError(name)
KeyError: 'pack'
"""
NODE_TRACE = """TypeError: x is not a function
    at Router.handle (/srv/app/lib/router/index.js:5:12)
    at next (/srv/app/lib/app.js:40:3)
"""


def memory(path: str, entity: str, start: int = 1, end: int = 10) -> Candidate:
    """Make a candidate named `path::entity`."""
    name = f"{path}::{entity}"
    return Candidate(
        name, name, Layer.GRAPH, Kind.FUNCTION, path, entity, start, end, "python", 10, 0.0
    )


POOL = (
    memory("cache/writer.py", "Store.write", 1, 20),
    memory("cache/writer.py", "flush", 25, 40),
    memory("cli/main.py", "run", 5, 30),
    memory("lib/router/index.js", "handle", 1, 9),
    memory("log.py", "Log.write"),
)


def strengths(task: str, errors: str = "") -> dict[str, float]:
    """Return how strongly each memory of the pool is mentioned."""
    return {
        name: mention.strength
        for name, mention in find_named(find_mentions(task, errors), POOL).items()
    }


def test_how_a_text_begins_is_no_name() -> None:
    """`flush` is near a function `flus_h`, but not a window of words that begins with `flus h`."""
    mentions = find_mentions("why does `flush` block?", "")
    function = memory("vocab.py", "flus_h")
    window = memory("vocab.bpe", "flus h")._replace(kind=Kind.TEXT)
    assert list(find_named(mentions, [window, function])) == [function.id]


@pytest.mark.parametrize(
    "place",
    [
        "src/Store.php(31): Store->flush()",
        "src/Store.php on line 31",
        "   at Store.Flush() in C:\\app\\src\\Store.cs:line 31",
        "src/Store.cs(31,5): error CS0103",
        "src/store.tsx(31,5): error TS2304",
        'on src/store.tf line 31, in resource "aws_store" "this":',
        "(shop 1.0.0) lib/src/store.ex:31: Shop.Store.flush/1",
    ],
)
def test_places_of_errors(place: str) -> None:
    """Each language and tool has its own way to say in which line of which file."""
    (frame,) = find_mentions(f"Error: cannot write\n{place}").frames
    assert frame.path.rpartition("src/")[2].lower().partition(".")[0] == "store"
    assert frame.line == 31


def test_a_call_is_no_place() -> None:
    """`values.pop(0)` keeps its words."""
    assert not find_mentions("why does values.pop(0) or Path.ts2(3) fail?").frames
    assert without_frames("why does values.pop(0) fail?") == "why does values.pop(0) fail?"


@pytest.mark.parametrize(
    "name", ["main.tf", "router.ex", "Nav.svelte", "ch03.ipynb", "build.sbt"]
)
def test_files_of_any_language_are_named(name: str) -> None:
    """The name of a file is one although it is given without a folder."""
    assert find_mentions(f"explain {name} to me").files == (name,)


def test_a_qualified_name_points_at_its_bearer_alone() -> None:
    """`Store.write` is not `Log.write`."""
    assert list(strengths("why does `Store.write` block?")) == ["cache/writer.py::Store.write"]
    assert list(strengths("why does Store.write() block?")) == ["cache/writer.py::Store.write"]


def test_a_misspelt_name_points_weakly_at_the_nearest() -> None:
    """`Store.wirte` and `handel()` are near matches; an unrelated library name is not."""
    near = strengths("why does `Store.writ` block in handel()?")
    assert near == {
        "cache/writer.py::Store.write": pytest.approx(NEAR / 2**0.25),
        "log.py::Log.write": pytest.approx(NEAR / 2**0.25),
        "lib/router/index.js::handle": NEAR,
    }
    assert strengths("`asyncio.gather` and frobnicate() are called") == {}


def test_a_module_qualifies_as_well() -> None:
    """`writer.flush` is the function `flush` of that module."""
    assert list(strengths("speed up writer.flush")) == ["cache/writer.py::flush"]


def test_a_bare_name_counts_when_it_is_written_as_code() -> None:
    """`flush` in backticks or with parentheses is a name; as an English word it is not."""
    assert list(strengths("call `flush` earlier")) == ["cache/writer.py::flush"]
    assert list(strengths("call flush() earlier")) == ["cache/writer.py::flush"]
    assert strengths("flush the toilet") == {}


def test_a_name_of_many_bearers_says_less() -> None:
    """Two memories called `write` are each mentioned less strongly than one would be."""
    both = strengths("`write` is slow")
    assert set(both) == {"cache/writer.py::Store.write", "log.py::Log.write"}
    assert max(both.values()) < strengths("`flush` is slow")["cache/writer.py::flush"]


def test_a_file_names_its_memories() -> None:
    """A path, whole or its end, mentions every memory of the file."""
    for task in (
        "look at cache/writer.py",
        "look at `writer.py`.",
        "look at ./cache/writer.py, please",
    ):
        assert set(strengths(task)) == {
            "cache/writer.py::Store.write",
            "cache/writer.py::flush",
        }, task


def test_python_frames_point_into_their_functions() -> None:
    """The innermost frame counts most; paths may be absolute (X23)."""
    by_name = strengths("fix this", PYTHON_TRACE)
    assert by_name["cache/writer.py::flush"] == FRAME
    assert 0 < by_name["cli/main.py::run"] < FRAME
    assert "cache/writer.py::Store.write" not in by_name


def test_script_frames_point_into_their_functions() -> None:
    """A Node stack trace is read with its innermost frame first (X23)."""
    assert strengths("fix this", NODE_TRACE) == {"lib/router/index.js::handle": FRAME}


def test_compiler_places_are_frames() -> None:
    """`file:line` as printed by compilers and linters mentions the memory that spans the line
    (X23)."""
    assert list(strengths("mypy fails", "cache/writer.py:30: error: bad")) == [
        "cache/writer.py::flush"
    ]


def test_a_frame_of_another_project_points_nowhere() -> None:
    """`site-packages/other/main.py` is not this repository's `cli/main.py`."""
    assert strengths("", '  File "/venv/site-packages/other/main.py", line 12, in run') == {}


def test_frames_are_cut_from_the_words() -> None:
    """What remains of a trace is the error itself."""
    assert "KeyError: 'pack'" in without_frames(PYTHON_TRACE)
    assert "writer.py" not in without_frames(PYTHON_TRACE)


@given(st.text(max_size=300))
def test_any_text_can_be_read(text: str) -> None:
    """No task breaks the parsing of names."""
    find_named(find_mentions(text, text), POOL)


@pytest.mark.parametrize("run", ["-", "a", "/a", ".", "_", "a.", "a_B"])
def test_long_runs_take_linear_time(run: str) -> None:
    """A long paste of one character is read in linear time: eight times the CPU for eight times the
    length."""
    assert_growth(
        lambda times: find_mentions(run * times), small=2_500, large=20_000, at_most=24
    )


def test_plain_words_name_nothing() -> None:
    """A sentence without code has no mentions."""
    assert find_mentions("where is a judgment written to the cache?") == Mentions()


@pytest.mark.parametrize(
    "task",
    [
        "where are flashed messages read?",
        "shell history search",
        (
            "The decoder drops prefixes of nested elements; find where prefixes are resolved and"
            " keep them in the output."
        ),
        "Our pages come out twice since the update. Which cache is asked first? Please fix it.",
        (
            "When a tenant is suspended its card is still charged, so I need to see where invoices"
            " are created."
        ),
    ],
)
def test_a_question_is_told_by_its_first_word_its_mark_or_what_it_asks_in_passing(
    task: str,
) -> None:
    """So is a search of a few words: what they are about may not exist."""
    assert is_question(task)


@pytest.mark.parametrize(
    "task",
    [
        "Do not suppress EOFError when standalone mode is disabled",
        "Have the logger link to the proper line of a file",
        "Fix issue where next('route') would skip the values of a parameter",
        "Skip routing when the url of a request is not set",
        "Merge params\n\n* fix the tests",
    ],
)
def test_an_instruction_is_no_question(task: str) -> None:
    """It names what its author has seen."""
    assert not is_question(task)
