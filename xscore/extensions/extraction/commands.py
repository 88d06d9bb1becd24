"""`memory review` and `memory extract`: look through what sessions left behind.

In a terminal the facts come one by one; elsewhere they are listed, and `--accept` and `--reject`
answer. Trade-off: questions are click's own, which comes with every install, so that there is
nothing to install before a review.
"""

from typing import TYPE_CHECKING

import click
from msgspec import Struct

from xscore.cli.flags import Flags, command
from xscore.cli.memory_text import memory_json
from xscore.cli.phrases import format_age
from xscore.cli.settings_and_store import opened_store, read_settings
from xscore.cli.terminal import Terminal, write_stderr
from xscore.cli.text_layout import bold, faint
from xscore.extensions.extraction import review, session_end
from xscore.extensions.extraction.review import Reviewed
from xscore.platform.text import counted, escape_controls, one_line
from xscore.records.memory import Memory
from xscore.settings.load import CI_ORIGIN
from xscore.store.extractor_state import ExtractorState, load_state

if TYPE_CHECKING:
    from xscore.store.store import Store

OFF_IN_CI = (
    "nothing was read: facts are not extracted in CI unless XSCORE_MEMORY_EXTRACT or your own"
    " settings turn it on"
)
_ANSWERS = {
    "a": "accept it",
    "e": "edit it, then accept it",
    "r": "reject it",
    "s": "leave it for later",
    "q": "stop",
}


class ExtractionDone(Struct, frozen=True, kw_only=True):
    """What one run of `memory extract` read and kept."""

    exchanges: int
    new: tuple[str, ...] = ()
    repeated: int = 0
    superseded: int = 0
    waiting: int = 0
    """Facts that wait for a review now."""
    model: ExtractorState = ExtractorState()
    """What the background process has asked a model so far (`memory.extractor`)."""


@command()
@click.option("--accept", metavar="ID", multiple=True, help="Accept this fact. Repeatable.")
@click.option("--reject", metavar="ID", multiple=True, help="Reject this fact. Repeatable.")
def review_facts(accept: tuple[str, ...], reject: tuple[str, ...], flags: Flags) -> None:
    """Review the facts found in sessions, each with the quote that it comes from.

    In a terminal it asks about each: accept, edit or reject. Elsewhere, and with --json, it lists
    them; answer with --accept and --reject. No turn uses a fact before you accept it, except those
    that `memory.extract = "auto"` accepted automatically: they come last, marked so. A rejected
    fact does not come back.
    """
    with opened_store(flags, make=False) as store:
        now = store.clock()
        if accept or reject:
            done = review.review_by_ids(store, accept=accept, reject=reject, now=now)
            flags.terminal.print_result(done, _render_reviewed)
            return
        facts = review.facts_to_review(store)
        taken_facts = review.taken_facts(store)
        if (facts or taken_facts) and flags.terminal.can_ask and not flags.terminal.as_json:
            done = _ask_about(store, [*facts, *taken_facts], flags.terminal, now=now)
            flags.terminal.print_result(done, _render_reviewed)
            return
    body = {
        "facts": [memory_json(fact) for fact in facts],
        "taken": [memory_json(fact) for fact in taken_facts],
    }
    parts = [_render_fact(fact, now=now) for fact in (*facts, *taken_facts)]
    flags.terminal.print_result(body, "\n\n".join(parts), none="no facts to review")
    if parts and not flags.terminal.as_json:
        flags.terminal.note("answer with `xscore memory review --accept ID` or `--reject ID`")


def _ask_about(
    store: "Store", facts: list[Memory], terminal: Terminal, *, now: float
) -> Reviewed:
    """Ask about one fact after the other, on standard error."""
    accepted: list[str] = []
    rejected: list[str] = []
    superseded: list[str] = []
    keys = "/".join(_ANSWERS)
    terminal.lines(", ".join(f"{key}: {meaning}" for key, meaning in _ANSWERS.items()))
    for number, fact in enumerate(facts, 1):
        write_stderr(f"\n{number} of {len(facts)}\n{_render_fact(fact, now=now)}")
        answer = _ask_for_answer(keys)
        if answer == "q":
            break
        if answer == "r":
            review.reject_fact(store, fact.id, now=now)
            rejected.append(fact.id)
        elif answer in ("a", "e"):
            text = ""
            if answer == "e":
                text = click.prompt("text", default=fact.text, err=True)
            superseded += review.accept_fact(store, fact.id, now=now, text=text)
            accepted.append(fact.id)
    return Reviewed(
        accepted=tuple(accepted),
        rejected=tuple(rejected),
        superseded=tuple(superseded),
        left=review.count_to_review(store),
    )


def _ask_for_answer(keys: str) -> str:
    choice = click.Choice(list(_ANSWERS))
    answer: str = click.prompt(f"[{keys}]", type=choice, show_choices=False, err=True)
    return answer


def _render_fact(fact: Memory, *, now: float) -> str:
    details = fact.details
    times = counted(max(1, details.occurrences), "time")
    head = f"{bold(fact.id)}  {fact.kind}, stated {times}, {format_age(fact.updated_at, now)}"
    if details.review == "unreviewed":
        head += ", accepted automatically"
    lines = [head, f"  {escape_controls(fact.text)}"]
    if details.quote not in fact.text:
        lines.append(faint(f"  “{one_line(details.quote)}”"))
    if details.paths:
        lines.append(faint(f"  files: {', '.join(map(one_line, details.paths))}"))
    if fact.key:
        lines.append(faint(f"  key: {one_line(fact.key)}"))
    return "\n".join(lines)


def _render_reviewed(done: Reviewed) -> str:
    facts = f"{len(done.accepted)} accepted · {len(done.rejected)} rejected · {done.left} left"
    if done.superseded:
        facts += f" · replaces {', '.join(done.superseded)}"
    return facts


@command()
def extract_facts(flags: Flags) -> None:
    """Find facts in every exchange that was not read yet, imported ones included.

    It reads only fixed forms ("we decided …", "from now on …", "TODO: …"); no model is asked and
    nothing is sent. Each exchange is read once.
    """
    loaded = read_settings(flags)
    settings = loaded.settings
    mode = settings.memory.extract
    if mode == "off" and loaded.origins["memory.extract"] == CI_ORIGIN:
        flags.terminal.note(OFF_IN_CI)
        flags.terminal.print_result(ExtractionDone(exchanges=0), _render_extraction)
        return
    if mode == "off":
        # This run was asked for: its facts wait, as by default.
        mode = "ask"
    with opened_store(flags, settings=settings) as store:
        sessions = session_end.read_everything(store, mode=mode, now=store.clock())
        waiting = review.count_to_review(store)
        state = load_state(store.connection, settings.memory.extractor)
    new: list[str] = []
    for session in sessions:
        new += session.kept.new
    done = ExtractionDone(
        exchanges=sum(session.exchanges for session in sessions),
        new=tuple(new),
        repeated=sum(session.kept.repeated for session in sessions),
        superseded=sum(session.kept.superseded for session in sessions),
        waiting=waiting,
        model=state,
    )
    flags.terminal.print_result(done, _render_extraction)


def _render_extraction(done: ExtractionDone) -> str:
    summary = (
        f"{counted(done.exchanges, 'exchange')} read · {counted(len(done.new), 'new fact')} ·"
        f" {done.repeated} known · {done.superseded} superseded"
    )
    if done.waiting:
        waits = counted(done.waiting, "fact waits", "facts wait")
        summary += f"\n{waits} for review: `xscore memory review`"
    if done.model.calls:
        model = done.model
        summary += (
            f"\n{one_line(model.model)}: {counted(model.calls, 'call')}, {model.answered} answered;"
            f" {model.kept} of {counted(model.proposed, 'proposed fact')} kept as new"
        )
    return summary
