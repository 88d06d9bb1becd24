"""`xscore ask --batch FILE`: the questions of a list in one session, a section for each; what sharing packs saved."""

from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from xscore.cli.main import STARTED_AT
from xscore.cli.opening import in_pipeline, read_settings
from xscore.cli.options import Flags
from xscore.cli.progress import TurnObserver
from xscore.cli.terminal import Terminal, bold, faint, print_json, write_stdout
from xscore.platform.errors import UsageError
from xscore.platform.text import counted, format_dollars, format_share, format_tokens, one_line

if TYPE_CHECKING:
    from xscore.extensions.batch.shared_packs import AskListReport
    from xscore.pipeline.json_form import Json
    from xscore.records import Answer
    from xscore.records.batch import Question


OF_ONE = {"file": "--file", "errors": "--errors", "recent": "--recent", "all_scores": "--all-scores"}
"""Options that speak of one question; in a list they stand in its lines, or nowhere."""


class PrintTurn(Protocol):
    """Prints what came of a turn (`ask.show`)."""

    def __call__(self, answer: "Answer", terminal: Terminal, streamed: str, *, wants_answer: bool) -> int:
        """Return the turn's exit code."""
        ...


def ask_batch(path: Path, flags: Flags, show: PrintTurn) -> int:
    """Ask every question of the list; return the exit code of the worst."""
    from xscore.extensions.batch.ask_list import AskListOptions, ask_list
    from xscore.pipeline.question_list import read_question_file

    for name, flag in OF_ONE.items():
        if flags.given.get(name):
            raise UsageError(
                f"{flag} speaks of one question, and --batch asks many", hint='A line may hold "file" and "errors".'
            )
    questions = read_question_file(path)
    terminal, wants_answer = flags.terminal, not flags.given["no_answer"]
    settings = read_settings(flags)
    asked = AskListOptions(
        scope=flags.scope,
        answer=wants_answer,
        fresh=bool(flags.given["fresh"]),
        checkpoint=flags.given["checkpoint"] or "",
        started=STARTED_AT,
    )
    has_deadline = settings.settings.budget.deadline_s is not None
    watch = TurnObserver(terminal, assume_yes=flags.assume_yes, has_deadline=has_deadline, noun="This list")
    objects: "list[dict[str, Json]]" = []  # noqa: UP037  names that only the type checker loads

    def told(question: "Question", answer: "Answer") -> None:
        if terminal.as_json:
            from xscore.pipeline.json_form import answer_json

            objects.append({"id": question.id, **answer_json(answer)})
            return
        watch.close()
        write_stdout(_heading(question, is_first=not seen))
        seen.append(question.id)
        if answer.answer is None and not answer.selected:
            write_stdout("nothing was chosen")  # why stands with the account
        show(answer, terminal, "", wants_answer=wants_answer and not settings.settings.judge.replay)

    seen: list[str] = []
    found = in_pipeline(lambda open_: ask_list(open_.parts, questions, asked, told=told), settings, watch)
    _print_account(found, terminal, objects)
    return found.exit_code


def _heading(question: "Question", *, is_first: bool) -> str:
    return f"{'' if is_first else chr(10)}{bold(f'# {one_line(question.id)}')}  {one_line(question.task)}"


def _print_account(found: "AskListReport", terminal: Terminal, objects: "list[dict[str, Json]]") -> None:
    if terminal.as_json:
        from xscore.pipeline.json_form import SCHEMA, record_json

        account = record_json(found)
        account.pop("exit_code")
        print_json({"schema": SCHEMA, "questions": objects, "together": account})
    terminal.notes(found.warnings)
    if not terminal.as_json:
        terminal.lines("\n" + render_shared_account(found))


def _saved(found: "AskListReport") -> str:
    """Dollars: by the cheaper way alone, and where that rests on a prefix cache, by the dearer."""
    took, alone, saved = found.took.cost_usd, found.alone.cost_usd, found.saved.cost_usd
    if saved is None or took is None or alone is None:
        return ", unpriced"
    more = alone - took
    return f", {_signed(saved)} to {_signed(more)}" if more > saved else f", {_signed(saved)}"


def _signed(usd: Decimal) -> str:
    return f"−{format_dollars(-usd)}" if usd < 0 else format_dollars(usd)


def render_shared_account(found: "AskListReport") -> str:
    """What judging took, what one question a call would have taken, and what was saved."""
    took, alone, saved = found.took, found.alone, found.saved
    asked = f"asked {found.asked} of {counted(found.questions, 'question')}"
    lines = [asked]
    if found.ended:
        lines = [
            f"{asked}, then it ended: {found.ended}. What was judged is kept: the same command goes on from there."
        ]
    if not took.calls:
        return "\n".join([*lines, faint("nothing was sent to the judge")])
    shared = f"{found.shared.calls:,} of them shared by up to {min(found.questions_a_call, found.questions)} questions"
    lines.append(
        faint(
            f"judging took {counted(took.calls, 'call')} ({shared}), {format_tokens(took.input_tokens)} in /"
            f" {format_tokens(took.output_tokens)} out,"
            f" {format_dollars(took.cost_usd, estimated=found.shared.estimated)}"
        )
    )
    if found.shared.calls:
        best = (
            ""
            if found.alone_at_best_usd is None
            else f", {format_dollars(found.alone_at_best_usd)} with prefixes cached"
        )
        lines.append(
            faint(
                f"one question a call: {counted(alone.calls, 'call')}, {format_tokens(alone.input_tokens)} in /"
                f" {format_tokens(alone.output_tokens)} out, {format_dollars(alone.cost_usd)}{best}"
            )
        )
        part = format_share(saved.input_tokens, alone.input_tokens)
        lines.append(
            f"saved {saved.calls:,} of {counted(alone.calls, 'call')}, {part} of the input tokens{_saved(found)}"
        )
    return "\n".join(lines)
