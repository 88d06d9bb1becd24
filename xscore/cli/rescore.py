"""`xscore rescore`: judgments brought up to date after edits or under a new judge; only what is missing is paid."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from xscore.cli.batch_run import WHOLE
from xscore.cli.moment import BEGAN
from xscore.cli.opening import in_pipeline, read_settings
from xscore.cli.options import COUNT, JUDGING, LIMITS, MODELS, OUTPUT, SCOPE, Flags, options
from xscore.cli.progress import Watch
from xscore.cli.terminal import Terminal, echo, print_json
from xscore.errors import UsageError
from xscore.safe_text import one_line
from xscore.wording import counted, dollars, seconds, tokens

if TYPE_CHECKING:
    from xscore.offline.live_plan import LivePlan
    from xscore.pipeline.build import Pipeline
    from xscore.pipeline.parts import Parts
    from xscore.pipeline.receipt import Json
    from xscore.records.offline import Questions

OWN = {
    "since": click.option("--since", metavar="REV", help="Memories of files that differ from this revision."),
    "changed": click.option(
        "--changed", is_flag=True, help="Memories of files with uncommitted changes; so it is unless told otherwise."
    ),
    "everything": click.option("--all", "everything", is_flag=True, help="All memories."),
    "queries": click.option(
        "--queries",
        metavar="FILE",
        type=click.Path(path_type=Path, allow_dash=True),
        help="Questions, a line of JSON each; without it the recent tasks of this repository.",
    ),
    "live": click.option("--live", is_flag=True, help="By live calls; so it is unless told otherwise."),
    "batch": click.option("--batch", is_flag=True, help="By the vendor's Batch API; results within a day."),
    "workers": click.option(
        "--workers", metavar="N", type=COUNT, default=1, help="So many processes; the limits are divided among them."
    ),
    "dry_run": click.option(
        "--dry-run", is_flag=True, help="Show what it would take, live and by batch; send nothing."
    ),
}
JUDGE = {"judge": MODELS["judge"]}


@click.command()
@options(OWN, SCOPE, JUDGE, JUDGING, LIMITS, WHOLE, OUTPUT)
def rescore(flags: Flags) -> int:
    """Bring judgments up to date after edits, or under a new judge or prompt version: only what is missing is sent.

    Asked are the questions of --queries FILE, or else the recent tasks of this repository: those of open sessions and
    of the last 14 days, at most 100. Looked at are the memories of files with uncommitted changes (--changed), of those
    that differ from a revision (--since REV), or all (--all). What the cache has costs nothing.
    """
    _check(flags)
    terminal, settings = flags.terminal, read_settings(flags)
    watch = Watch(terminal, agreed=flags.agreed, called="This rescoring")

    async def work(pipeline: "Pipeline") -> int:
        asked, only = _asked(pipeline, flags), _files(pipeline, flags)
        if flags.given["dry_run"]:
            return _planned(pipeline.parts, asked, flags, only)
        if flags.given["batch"]:
            from xscore.cli.batch_submit import submitted

            chosen = settings.settings
            return await submitted(pipeline.parts, asked, flags, chosen, dry=False, command="rescore", only=only)
        from xscore.cli.batch_run import show
        from xscore.offline.live_job import JobWishes, run_list

        wishes = JobWishes(command="rescore", workers=flags.given["workers"], only=only, ranks=False, started=BEGAN)
        found = await run_list(pipeline.parts, asked, scope=flags.scope, wishes=wishes)
        watch.close()
        return show(found, terminal)

    return in_pipeline(work, settings, watch)


def _check(flags: Flags) -> None:
    """Raise UsageError for options that exclude each other."""
    given = flags.given
    if sum(map(bool, (given["since"], given["changed"], given["everything"]))) > 1:
        raise UsageError("--since, --changed and --all say different things", hint="Give one of them.")
    if given["live"] and given["batch"]:
        raise UsageError("--live and --batch say different things", hint="Give one of them.")
    if given["batch"] and given["require_shared"]:
        raise UsageError("--require-shared: a batch asks no shared server", hint="Give it with --live.")


def _asked(pipeline: "Pipeline", flags: Flags) -> "Questions":
    """Return the questions of the file, or the recent tasks, and say which those are."""
    from xscore.offline import questions_file
    from xscore.offline.rescore import recent

    if flags.given["queries"] is not None:
        return questions_file.read(flags.given["queries"])
    parts = pipeline.parts
    found = recent(parts.store.connection, parts.root, now=parts.clock())
    parts.observer.note(found.in_words())
    return found.questions


def _files(pipeline: "Pipeline", flags: Flags) -> frozenset[str] | None:
    """Return the files whose memories are looked at, and say how many; None: all."""
    from xscore.offline.rescore import edited

    if flags.given["everything"]:
        return None
    since = flags.given["since"] or ""
    found = edited(pipeline.parts.root, since=since)
    what = f"files that differ from {one_line(since)}" if since else "files with uncommitted changes"
    pipeline.parts.observer.note(f"{what}: {len(found):,}")
    return found


def _planned(parts: "Parts", asked: "Questions", flags: Flags, only: frozenset[str] | None) -> int:
    """Show what it would take."""
    from xscore.offline.live_job import plan_list

    _, plan = plan_list(parts, asked, scope=flags.scope, only=only)
    body = _as_json(parts, plan, only)
    if flags.terminal.as_json:
        print_json(body)
    else:
        _page(body, flags.terminal, parts, plan)
    return 0


def _as_json(parts: "Parts", plan: "LivePlan", only: frozenset[str] | None) -> "dict[str, Json]":
    from xscore.offline.live_plan import batch_cost
    from xscore.pipeline.receipt import SCHEMA, money

    judge, identity = plan.estimate, parts.judge.identity
    return {
        "schema": SCHEMA,
        "dry_run": True,
        "judge": f"{identity.provider}:{identity.model}" if parts.judge.is_model else "lexical",
        "host": identity.host,
        "files": None if only is None else len(only),
        "questions": len(plan.rows),
        "candidates": plan.candidates,
        "cached": plan.cached,
        "hit_rate": None if plan.hit_rate is None else round(plan.hit_rate, 6),
        "to_judge": plan.to_judge,
        "elsewhere": plan.elsewhere,
        "elsewhere_jobs": list(plan.elsewhere_jobs),
        "calls": judge.calls if judge else 0,
        "input_tokens": judge.input_tokens if judge else 0,
        "output_tokens": judge.output_tokens if judge else 0,
        "live_usd": money(judge.cost_usd) if judge else "0",
        "batch_usd": money(batch_cost(parts, judge)) if judge else "0",
        "seconds": round(judge.seconds, 6) if judge else 0.0,
    }


def _page(body: "dict[str, Json]", terminal: Terminal, parts: "Parts", plan: "LivePlan") -> None:
    from xscore.cli.job_page import hit_rate_in_words
    from xscore.offline.live_plan import batch_cost

    judge = plan.estimate
    lines = [
        f"list     {counted(len(plan.rows), 'question')} · {plan.candidates:,} candidates · {plan.cached:,} cached:"
        f" {hit_rate_in_words(plan.cached, plan.candidates)}",
        f"judge    {one_line(str(body['judge']))} at {one_line(str(body['host']))}",
    ]
    if judge is not None:
        by_batch = dollars(batch_cost(parts, judge), estimated=True)
        in_time = f" in about {seconds(judge.seconds)}" if judge.calls else ""
        lines += [
            f"send     {plan.to_judge:,} to judge · {counted(judge.calls, 'call')}"
            f" · {tokens(judge.input_tokens)} in / {tokens(judge.output_tokens)} out",
            f"cost     {dollars(judge.cost_usd, estimated=True)} live{in_time}, {by_batch} by batch within a day",
        ]
    echo("\n".join(lines))
    terminal.note("nothing was sent")
