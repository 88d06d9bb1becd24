"""`xscore batch submit`: a list of questions planned, agreed to and sent through a vendor's Batch API."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from xscore.cli.opening import in_pipeline, read_settings
from xscore.cli.options import JUDGING, MODELS, OUTPUT, SCOPE, Flags, options
from xscore.cli.progress import Watch
from xscore.cli.terminal import Terminal, echo, print_json
from xscore.errors import UsageError, XscoreError
from xscore.safe_text import one_line
from xscore.wording import counted, dollars, share, tokens

if TYPE_CHECKING:
    from xscore.offline.job_rows import Command
    from xscore.offline.submitting import Drawn, Takes
    from xscore.pipeline.build import Pipeline
    from xscore.pipeline.parts import Parts
    from xscore.records.offline import Questions, Standing
    from xscore.settings import Settings

OWN = {
    "max_usd": click.option(
        "--max-usd", metavar="DOLLARS", help="Cap on the whole job; what it leaves unsent waits for a higher one."
    ),
    "yes": click.option("-y", "--yes", is_flag=True, help="Do not ask before a costly job; --max-usd still holds."),
    "dry_run": click.option("--dry-run", is_flag=True, help="Show what it would take; keep and send nothing."),
}
JUDGE = {"judge": MODELS["judge"]}
UNUSABLE, OVER_BUDGET = 3, 4


@click.command()
@click.argument("questions", metavar="QUERIES.jsonl", type=click.Path(path_type=Path, allow_dash=True))
@options(SCOPE, JUDGE, JUDGING, OWN, OUTPUT)
def submit(questions: Path, flags: Flags) -> int:
    """Have every memory judged against a list of questions through the vendor's Batch API, at half the price.

    QUERIES.jsonl has one question a line: {"id": "q1", "task": "…"}, with "file" and "errors" where they help; `-`
    reads standard input. Only what the cache lacks is sent. Results come within a day: `xscore batch collect`.
    """
    from xscore.offline import questions_file

    asked = questions_file.read(questions)
    settings = read_settings(flags)
    watch = Watch(flags.terminal, agreed=flags.agreed, called="This job")
    dry = bool(flags.given["dry_run"])
    chosen = settings.settings

    async def work(pipeline: "Pipeline") -> int:
        return await submitted(pipeline.parts, asked, flags, chosen, dry=dry)

    return in_pipeline(work, settings, watch)


async def submitted(
    parts: "Parts",
    asked: "Questions",
    flags: Flags,
    settings: "Settings",
    *,
    dry: bool,
    command: "Command" = "submit",
    only: frozenset[str] | None = None,
) -> int:
    """Plan a list, agree to it and send it as far as it goes; return the exit code. only: paths, as `memories` has."""
    from xscore.offline.agreeing import agree

    drawn = _drawn(parts, asked, flags, only=only)
    if not drawn.plan.requests or dry:
        return _nothing_sent(parts, drawn, flags.terminal, dry=dry)
    agree(parts, drawn.estimate)
    return await _send(parts, drawn, flags.terminal, settings, command=command)


def _drawn(parts: "Parts", asked: "Questions", flags: Flags, *, only: frozenset[str] | None) -> "Drawn":
    """Bring the index up to date, plan, and show what it takes."""
    from xscore import sealing
    from xscore.offline.rendering import limits_in_force
    from xscore.offline.submitting import batch_seat, draw_up
    from xscore.providers.batches import batches_of

    host = batches_of(batch_seat(parts).provider)
    is_sealed = sealing.note_of(parts.store.path) is not None
    parts.observer.stage("index")
    parts.index()
    parts.observer.stage("pool")
    limits = limits_in_force(host.limits, parts.settings.batch, is_sealed=is_sealed)
    drawn = draw_up(parts, asked, scope=flags.scope, limits=limits, only=only)
    is_wanted = not flags.terminal.quiet or flags.given["dry_run"]
    if is_wanted and not flags.terminal.as_json:
        echo(page(drawn.takes))
    return drawn


def _nothing_sent(parts: "Parts", drawn: "Drawn", terminal: Terminal, *, dry: bool) -> int:
    """End without a job: nothing is left to judge, or it was only to be looked at."""
    from xscore.offline.submitting import keep_settled

    plan = drawn.plan
    if not plan.requests and plan.elsewhere:
        job = drawn.elsewhere[0]
        raise UsageError(
            f"all that is left of this list is under way already, in {', '.join(drawn.elsewhere)}",
            hint=f"Collect it with `xscore batch collect {job}`.",
        )
    if not dry:
        keep_settled(parts, drawn)
    _tell("", drawn, None, terminal)
    if not plan.requests:
        terminal.note("nothing is left to judge: no job was made")
    return 0


async def _send(parts: "Parts", drawn: "Drawn", terminal: Terminal, settings: "Settings", *, command: "Command") -> int:
    """Commit the job, have it sent as far as it goes, and say where it stands."""
    from xscore.offline import machine
    from xscore.offline.submitting import batch_seat, keep, keep_settled
    from xscore.providers.batches import batch_host

    seat = batch_seat(parts)
    host = batch_host(seat.spec, settings)
    if seat.capability is not None:
        host.adopt(seat.capability)
    keep_settled(parts, drawn)
    job = keep(parts, drawn, command=command)
    try:
        standing = await machine.advance(parts.store, settings, host, job, clock=parts.clock, note=parts.observer.note)
    except XscoreError:
        terminal.note(f"the job is kept: `xscore batch collect {job}` goes on with it")
        raise
    finally:
        await host.aclose()
    _tell(job, drawn, standing, terminal)
    if standing.sent or standing.answered:
        return 0
    return OVER_BUDGET if standing.over_budget else UNUSABLE if standing.problem else 0


def _tell(job: str, drawn: "Drawn", standing: "Standing | None", terminal: Terminal) -> None:
    from xscore.cli import batch_page

    if terminal.as_json:
        from xscore.pipeline.receipt import to_json

        told = {"job": job or None, "standing": None if standing is None else batch_page.as_json(standing)}
        print_json({**to_json(drawn.takes), **told})
    elif standing is not None:
        echo(batch_page.page(standing, cost=not terminal.quiet))
    if standing is not None:
        for said in (*standing.remarks, batch_page.next_step(standing)):
            terminal.note(said)


def page(found: "Takes") -> str:
    """Show what the list takes: the cache first, then calls and dollars, then what would hold them back."""
    hits = share(found.cached, found.candidates)
    lines = [
        f"list     {counted(found.questions, 'question')} · {found.candidates:,} candidates ·"
        f" {found.cached:,} cached: replayed hit rate {hits}",
        f"judge    {one_line(found.judge)} at {one_line(found.host)}",
        f"send     {found.to_judge:,} to judge · {counted(found.requests, 'call')} of"
        f" {counted(found.prompts, 'prompt')} · {tokens(found.input_tokens)} in / {tokens(found.output_tokens)} out"
        + (f" · about {counted(found.batches, 'batch', 'batches')}" if found.batches else ""),
        f"cost     {dollars(found.cost_usd, estimated=True)} by batch, {dollars(found.live_usd, estimated=True)} live",
    ]
    lines.extend(f"         {line}" for line in _left_out(found))
    lines.extend(f"         {line}" for line in _held_back(found))
    return "\n".join(lines)


def _left_out(found: "Takes") -> list[str]:
    said = []
    if found.repeated:
        said.append(f"{found.repeated:,} are asked once for questions that are the same")
    if found.elsewhere:
        said.append(f"{found.elsewhere:,} are under way in {', '.join(found.elsewhere_jobs)}")
    if found.of_user:
        said.append(f"{counted(found.of_user, 'memory', 'memories')} of your own are left out: live judging has them")
    return said


def _held_back(found: "Takes") -> list[str]:
    """Say which caps come first; each call is sent only where the most it may cost fits."""
    from xscore.cost_reports.cap_words import capped

    if found.cost_usd is None:
        return ["the model has no known price: no cap on dollars holds its calls"] if found.caps else []
    return [
        f"above {capped(cap)}: what does not fit waits until it does"
        for cap in found.caps
        if found.cost_usd > cap.left_usd
    ]
