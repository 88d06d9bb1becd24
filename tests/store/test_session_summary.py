"""A session's summary, word for word."""

from hypothesis import given, settings
from hypothesis import strategies as st

from xscore.platform import tokens
from xscore.records.turn import SessionEntry
from xscore.store.session_summary import (
    LINE_CHARS,
    MOST_LINES,
    SUMMARY_TOKENS,
    names_memory,
    session_entry,
    summarise_entries,
)

STATES = ("done", "partial", "failed", "interrupted", "running")


def entry(
    task: str, answer: str = "", *, state: str = "done", number: int = 0, errors: str = ""
) -> SessionEntry:
    """A turn as read from the store."""
    return session_entry(
        turn_id=f"t_{number}",
        exchange=f"m_{number:020x}" if answer else "",
        task=task,
        answer=answer,
        state=state,
        errors=errors,
        files=("a.py",),
        names={},
    )


def test_what_was_said_to_be_left_is_left_until_it_is_said_to_be_done() -> None:
    """B02: to-dos in tasks and answers stay open until an answer closes them or a task takes them
    up."""
    entries = [
        entry(
            "TODO: write docs",
            "Sure.\n- [ ] add a test\nNext: rename it\nRemaining: tell Ann",
            number=1,
        ),
        entry("rename it", "Done.", number=2),
        entry("more", "- [x] Add a test.", number=3),
    ]
    assert summarise_entries(entries).pending == ("write docs", "tell Ann")


def test_a_task_that_was_cut_short_is_left_to_do() -> None:
    """H28: a killed, failed or interrupted turn leaves its task open; asked again and answered, it
    is done."""
    entries = [entry("one", state="running", number=1), entry("two", state="failed", number=2)]
    assert summarise_entries(entries).pending == ("one", "two")
    assert summarise_entries([*entries, entry("one", "Answered.", number=3)]).pending == (
        "two",
    )


def test_the_goal_is_the_one_named_or_the_first_task() -> None:
    """B06: `Goal:` lines are goals; otherwise the first task is; a caller's own replace both."""
    plain = [entry("mend the pump", "ok", number=1), entry("why?", "so", number=2)]
    assert summarise_entries(plain).goals == ("mend the pump",)
    assert summarise_entries(
        [*plain, entry("Goal: dry feet\nand now?", "ok", number=3)]
    ).goals == ("dry feet",)
    assert summarise_entries(plain, goals=["another"]).goals == ("another",)


def test_tasks_come_with_their_outcome_and_the_last_line_of_their_errors() -> None:
    """B02: an answer's first sentence is its outcome, without headings; an error's is its last
    line."""
    failed = entry(
        "fix it",
        "## Found it. It leaks.",
        errors="Traceback\n  x\nValueError: no water",
        number=1,
    )
    assert (
        summarise_entries([failed]).text.splitlines()[2]
        == "- fix it → Found it. (error: ValueError: no water)"
    )


def test_a_memory_is_named_by_id_by_whole_name_or_by_what_looks_like_code() -> None:
    """Plain prose words name no function; code does."""
    identifier = "m_0123456789abcdef0123"
    assert names_memory(identifier, "", "see [m_01234567]")
    assert names_memory(identifier, "Cart.add", "the method Cart.add") and names_memory(
        identifier, "Cart.add", "call add()"
    )
    assert names_memory(identifier, "Cart.add", "`cart.add`") and names_memory(
        identifier, "take_up", "then take_up runs"
    )
    assert not names_memory(identifier, "Cart.add", "please add a test") and not names_memory(
        identifier, "take_up", "take_upper"
    )


@settings(max_examples=30)
@given(
    st.lists(
        st.tuples(st.text(max_size=400), st.text(max_size=900), st.sampled_from(STATES)),
        max_size=60,
    )
)
def test_a_summary_stays_small_and_loses_no_task(turns: list[tuple[str, str, str]]) -> None:
    """B01, B02: the text is always bounded, and each task is shown or counted."""
    entries = [
        entry(task, answer, state=state, number=n)
        for n, (task, answer, state) in enumerate(turns)
    ]
    summary = summarise_entries(entries, earlier=3)
    bound = SUMMARY_TOKENS + tokens.estimate(3 * MOST_LINES * (LINE_CHARS + 4) + 4 * LINE_CHARS)
    assert tokens.estimate(len(summary.text)) <= bound
    assert len(summary.pending) <= MOST_LINES and len(summary.goals) <= MOST_LINES
    if entries:
        head, *lines = summary.text.partition("Tasks:\n")[2].splitlines()
        untold = int(head.split()[1])
        shown = sum(line.startswith("- ") for line in lines) - len(summary.pending)
        assert untold + shown == len(entries) + 3
