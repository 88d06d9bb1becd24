"""`xscore ask --batch FILE`: the questions of a list in one session, a section for each; what sharing packs saved."""

from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

from xscore.cli.ask import print_turn
from xscore.cli.main import STARTED_AT
from xscore.cli.opening import read_settings, run_turn
from xscore.cli.options import Flags
from xscore.cli.phrases import describe_tokens
from xscore.cli.progress import TurnObserver
from xscore.cli.terminal import bold, faint, print_json, write_stdout
from xscore.extensions.batch.ask_list import AskListOptions, ask_list
from xscore.pipeline.json_form import SCHEMA, Json, answer_json, record_json
from xscore.pipeline.question_list import read_question_file
from xscore.platform.errors import UsageError
from xscore.platform.text import counted, format_dollars, format_share, one_line
from xscore.records.receipt import Answer

if TYPE_CHECKING:
    from xscore.extensions.batch.shared_packs import AskListReport
    from xscore.pipeline.question_list import Question

OF_ONE = {"file": "--file", "errors": "--errors", "recent": "--recent", "all_scores": "--all-scores"}
"""Options of one question, which a list has in its lines or not at all."""


def ask_batch(path: Path, flags: Flags) -> int:
    """Ask every question of the list; return the exit code of the worst."""
    for name, flag in OF_ONE.items():
        if flags.given.get(name):
            raise UsageError(
                f"{flag} is for one question, and --batch asks many", hint='A line may hold "file" and "errors".'
            )
    questions = read_question_file(path)
    terminal, answers, settings = flags.terminal, not flags.given["no_answer"], read_settings(flags)
    asked = AskListOptions(
        scope=flags.scope,
        answer=answers,
        fresh=bool(flags.given["fresh"]),
        checkpoint=flags.given["checkpoint"] or "",
        started=STARTED_AT,
    )
    watch = TurnObserver(terminal, assume_yes=flags.assume_yes, noun="This list")
    objects: list[dict[str, Json]] = []

    def print_answer(question: "Question", answer: Answer) -> None:
        objects.append({"id": question.id, **answer_json(answer)})
        if terminal.as_json:
            return
        watch.close()
        gap = "\n" if len(objects) > 1 else ""
        write_stdout(f"{gap}{bold(f'# {one_line(question.id)}')}  {one_line(question.task)}")
        if answer.answer is None and not answer.selected:
            write_stdout("nothing was chosen")  # why stands with the account
        print_turn(answer, terminal, wants_answer=answers and not settings.settings.judge.replay)

    found = run_turn(
        flags,
        lambda open_: ask_list(open_.parts, questions, asked, on_answer=print_answer),
        settings=settings,
        watch=watch,
    )
    if terminal.as_json:
        account = record_json(found)
        account.pop("exit_code")
        print_json({"schema": SCHEMA, "questions": objects, "together": account})
    terminal.notes(found.warnings)
    if not terminal.as_json:
        terminal.lines("\n" + _render_shared_account(found))
    return found.exit_code


def _render_shared_account(found: "AskListReport") -> str:
    took, alone, saved = found.took, found.alone, found.saved
    asked = f"asked {found.asked} of {counted(found.questions, 'question')}"
    if found.ended:
        asked += f", then it ended: {found.ended}. What was judged is kept: the same command goes on from there."
    if not took.calls:
        return f"{asked}\n{faint('nothing was sent to the judge')}"
    sharing = min(found.questions_a_call, found.questions)
    cost = format_dollars(took.cost_usd, estimated=found.shared.estimated)
    calls = f"{counted(took.calls, 'call')} ({found.shared.calls:,} of them shared by up to {sharing} questions)"
    lines = [asked, faint(f"judging took {calls}, {describe_tokens(took.input_tokens, took.output_tokens)}, {cost}")]
    if not found.shared.calls:
        return "\n".join(lines)
    best = found.alone_at_best_usd
    cached = "" if best is None else f", {format_dollars(best)} with prefixes cached"
    tokens, calls = describe_tokens(alone.input_tokens, alone.output_tokens), counted(alone.calls, "call")
    part = format_share(saved.input_tokens, alone.input_tokens)
    return "\n".join(
        [
            *lines,
            faint(f"one question a call: {calls}, {tokens}, {format_dollars(alone.cost_usd)}{cached}"),
            f"saved {saved.calls:,} of {calls}, {part} of the input tokens{_saved(found)}",
        ]
    )


def _saved(found: "AskListReport") -> str:
    took, alone, saved = found.took.cost_usd, found.alone.cost_usd, found.saved.cost_usd
    if saved is None or took is None or alone is None:
        return ", unpriced"
    more = alone - took
    return f", {_signed(saved)} to {_signed(more)}" if more > saved else f", {_signed(saved)}"


def _signed(usd: Decimal) -> str:
    return f"−{format_dollars(-usd)}" if usd < 0 else format_dollars(usd)
