"""What makes up the key of a judgment."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cache.conftest import JUDGE
from tests.cpu_time import assert_growth
from xscore.cache.keys import judge_key, normalise_turn_text, turn_key

TEMPLATE = """<turn>
<task>Fix the crash in Store.write when the pack is empty</task>
<errors>
{date} ERROR worker {address}
Traceback (most recent call last):
  File "{temporary}/project/store.py", line {line}, in write
    self.rows[0]
  at write ({source}.js:{line}:{column})
tests/test_store.py:{line}: IndexError
   --> src/store.rs:{line}:{column}
#0 main () at store.c:{line}
panic: goroutine 1
	/src/main.go:{line} +0x1d
<Store object at {short_address}>
=== 1 failed, 3 passed in {duration}s ===
--- FAIL: TestWrite ({duration}s)
</errors>
</turn>"""

words = st.text("abcdefgh", min_size=1, max_size=8)
numbers = st.integers(1, 99_999)
runs = st.fixed_dictionaries(
    {
        "date": st.datetimes().map(
            lambda at: at.replace(year=2000 + at.year % 100).isoformat(sep=" ")
        ),
        "address": st.integers(16**9, 16**12 - 1).map(hex),
        "short_address": st.integers(16**3, 16**12 - 1).map(hex),
        "temporary": st.one_of(
            words.map(lambda word: f"/tmp/tmp{word}"),
            words.map(lambda word: f"/private/var/folders/ab/{word}/T/{word}"),
            st.integers(0, 999).map(lambda number: f"/tmp/pytest-of-root/pytest-{number}"),
        ),
        "line": numbers,
        "column": numbers,
        "duration": st.floats(0.001, 999).map(lambda seconds: f"{seconds:.2f}"),
    }
)


@given(runs, runs)
def test_two_runs_of_one_command_share_a_key(
    first_run: dict[str, object], second_run: dict[str, object]
) -> None:
    """Addresses, temporary paths, times, durations and line numbers of stack frames are kept out of
    the key."""
    assert turn_key(TEMPLATE.format(source="store", **first_run)) == turn_key(
        TEMPLATE.format(source="store", **second_run)
    )


@pytest.mark.parametrize(
    ("first_task", "second_task"),
    [
        ("set the timeout to 30s", "set the timeout to 60s"),
        ("retry after 0.5s", "retry after 1.5s"),
        ("why does store.py:120 fail", "why does store.py:300 fail"),
        ("look at line 12", "look at line 13"),
        ("support HTTP 404", "support HTTP 405"),
        ("mask 0xFF", "mask 0xF0"),
        ("listen on 127.0.0.1:8080", "listen on 127.0.0.1:9090"),
        ("release 1.2.3", "release 1.2.4"),
        ("read src/tmp/a.py", "read src/tmp/b.py"),
        ("it broke on 2026-11-01", "it broke on 2026-11-02"),
    ],
)
def test_what_a_person_chose_stays_in_the_key(first_task: str, second_task: str) -> None:
    """Numbers, places and dates that belong to the task make a different task."""
    assert turn_key(first_task) != turn_key(second_task)


@given(st.one_of(st.text(), st.text("/tmp:0123456789.xps()\n at<>-T pytest")))
def test_normalising_twice_changes_nothing(text: str) -> None:
    """Normalising a normalised turn changes nothing."""
    assert normalise_turn_text(normalise_turn_text(text)) == normalise_turn_text(text)


def test_every_part_of_a_judge_is_in_its_key() -> None:
    """Another provider, host, model, reasoning effort, prompt version, order or packing is another
    judge."""
    keys = {judge_key(JUDGE)}
    for field in msgspec.structs.fields(JUDGE):
        change: dict[str, Any] = {field.name: False if field.name == "packed" else "other"}
        keys.add(judge_key(msgspec.structs.replace(JUDGE, **change)))
    assert len(keys) == 1 + len(JUDGE.__struct_fields__)


def test_keys_do_not_drift() -> None:
    """The keys of paid judgments are pinned: changing them here would make every user pay again."""
    assert (
        turn_key("<turn>\n<task>fix it</task>\n</turn>") == "268496029136718f96f83f44e003e8ab"
    )
    assert judge_key(JUDGE) == "ff5852742200651bab66bfb6df01952b"


@pytest.mark.parametrize(
    "unit",
    ["a", "\n", " ", "(", "1:", "at ", " a.b", "x.y:1 ", "/tmp/", 'File "', "1.11 ", "\t\n"],
)
@pytest.mark.verify
def test_long_pastes_are_normalised_in_linear_time(unit: str) -> None:
    """Eight times the text takes about eight times the CPU, whatever it repeats, so a paste cannot
    hang a turn."""
    assert_growth(
        lambda times: normalise_turn_text(unit * times + "x"),
        small=5_000,
        large=40_000,
        at_most=24,
    )
