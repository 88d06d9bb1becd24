"""Tell a new agent session what was worked on, what is left, and which failures and decisions
concern those files.

It reads the store and asks git for the changed files; it calls no model and does not index. It
states no ages, so the same state always gives the same bytes. Trade-off: only files in the branch's
working session or its uncommitted change count as the branch's.
"""

from collections.abc import Iterable, Iterator

from xscore.extensions.agents.agent_bundle import quoted, size_of
from xscore.extensions.agents.data_fence import DATA_NOTE, FENCE
from xscore.platform.git import changed_files
from xscore.platform.git_folder import working_branch
from xscore.platform.text import format_place, without_invisible
from xscore.records.memory import Kind, Memory
from xscore.records.turn import WorkingSession
from xscore.store.drift import drift_warnings
from xscore.store.evidence import refresh_evidence
from xscore.store.memory_queries import open_memories_about
from xscore.store.session_summary import summarise_session
from xscore.store.store import Store
from xscore.store.working_session import load_sessions

MAX_CHARS = 900
"""Longest recap, in bytes of UTF-8 (see `agent_bundle`): the first prompt's brief has the rest."""
LINE_CHARS = 120
MOST_MEMORIES = 4


def render_recap(store: Store, *, git: bool) -> str:
    """Return the recap of this branch; "" if nothing is known. git: ask git for uncommitted
    changes."""
    # No turn has looked at what is cited.
    refresh_evidence(store.connection, store.root, now=store.clock())
    branch = working_branch(store.root.git_dir)
    sessions = load_sessions(store.connection)
    open_here = [
        session
        for session in sessions
        if session.branch == branch and session.closed_at is None
    ]
    session = next((session for session in open_here if session.task), None)
    summary = None
    if session:
        summary = summarise_session(store.connection, session.thread)
    files = (
        set(changed_files(store.root.path) or ()) if git and store.root.is_git else set[str]()
    )
    if session and summary:
        files |= {*summary.files, *session.recent, session.file} - {""}
    lines = [
        *_work(session, summary.pending if summary else ()),
        *_known(store, memories_about(store, files)),
    ]
    if not lines:
        return ""
    head = f"xscore remembers earlier work on this branch.\n{DATA_NOTE}\n<{FENCE}>\n"
    tail = f"</{FENCE}>"
    room = MAX_CHARS - size_of(head + tail)
    shown = []
    for line in lines:
        room -= size_of(line) + 1
        if room < 0:
            break
        shown.append(f"{line}\n")
    return head + "".join(shown) + tail


def memories_about(store: Store, files: Iterable[str]) -> list[Memory]:
    """Return open failures and decisions that name or cite one of these files, latest first."""
    memories = open_memories_about(store.connection, files)
    latest = sorted(memories, key=lambda memory: (-memory.updated_at, memory.id))
    return [memory for memory in latest if not memory.details.resolution]


def _work(session: WorkingSession | None, pending: Iterable[str]) -> Iterator[str]:
    if session is None:
        return
    place = format_place(without_invisible(session.file), session.line)
    last = ""
    if session.file:
        last = f" Last file: {quoted(place, LINE_CHARS)}."
    yield f"You were working on “{quoted(session.task, LINE_CHARS)}”.{last}"
    tasks = [task for task in pending if task != session.task]
    if tasks:
        yield "Left to do:"
    for task in tasks:
        yield f"- {quoted(task, LINE_CHARS)}"


def _known(store: Store, memories: list[Memory]) -> Iterator[str]:
    warnings = drift_warnings(store, memories[: 2 * MOST_MEMORIES])
    headings = {
        Kind.FAILURE: "Open failures in these files:",
        Kind.DECISION: "Decisions about these files (prior context, not immutable law):",
    }
    for kind, heading in headings.items():
        of_kind = [memory for memory in memories if memory.kind is kind][:MOST_MEMORIES]
        # A heading goes with its first line: neither says much alone.
        before = f"{heading}\n"
        for memory in of_kind:
            warning = warnings.get(memory.id, "")
            mark = f"{quoted(warning, LINE_CHARS)}: " if warning else ""
            yield f"{before}- [{memory.id}] {mark}{quoted(_line_of(memory), LINE_CHARS)}"
            before = ""


def _line_of(memory: Memory) -> str:
    """Return the title; for a failure also the last line, where tools print what failed."""
    last = memory.text.strip().splitlines()[-1:] if memory.kind is Kind.FAILURE else []
    return ": ".join(dict.fromkeys([memory.title, *last]))
