"""`xscore store cache | prune | trust`: cached judgments counted and swept; a store from elsewhere
accepted.

`trust` works without opening the store, since opening is what was refused. It cannot tell whether a
store deserves trust: its maker chose its scores.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from xscore.cache.prune import (
    JUDGMENT_BYTES,
    MAX_JUDGMENTS,
    PruneOptions,
    PruneResult,
    preview_prune,
    prune_judgments,
    vacuum_store,
)
from xscore.cache.stats import CacheStats, HitRate, cache_stats
from xscore.cli.flags import Flags, command
from xscore.cli.options import DRY_RUN, JUDGE, YES, period_s
from xscore.cli.phrases import format_age
from xscore.cli.settings_and_store import opened_store, read_settings
from xscore.cli.terminal import Terminal
from xscore.cli.text_layout import render_facts
from xscore.pipeline.factories import configured_judge
from xscore.platform.errors import ExitCode, StoreError, UsageError, XscoreError
from xscore.platform.figures import format_bytes, format_share
from xscore.platform.files import is_there
from xscore.platform.paths import STORE_FILE, find_root, user_data_dir
from xscore.platform.sqlite_drivers import REBUILD_HINT
from xscore.platform.text import counted, one_line
from xscore.store.opening import accept_store

if TYPE_CHECKING:
    from xscore.store.store import Store

JUDGES_SHOWN = 8
_CAUSES = {
    "unreachable": "of contents that no memory has any more",
    "parts": "of parts of memories that are now judged whole",
    "unused": "of turns last asked before that time",
    "of_judges": "of the judges named",
    "over_cap": "over the cap, of the least recently used turns",
}


@command(DRY_RUN, YES)
@click.option(
    "--max-judgments",
    metavar="N",
    type=click.IntRange(min=0),
    default=MAX_JUDGMENTS,
    show_default=True,
    help="Keep at most N.",
)
@click.option(
    "--older-than",
    metavar="PERIOD",
    type=period_s,
    help="Also judgments of turns last asked before TIME (90d, 12w).",
)
@click.option(
    "--judge",
    "judges",
    metavar="KEY",
    multiple=True,
    help="Also all judgments by this judge (name or key). Repeatable.",
)
@click.option("--vacuum", is_flag=True, help="Then shrink the file.")
def prune_cache(
    *,
    max_judgments: int,
    older_than: float | None,
    judges: tuple[str, ...],
    vacuum: bool,
    flags: Flags,
) -> int:
    """Remove judgments whose memory no longer exists, quarantined scores, and whatever else you
    name.

    Judgments that a running turn or job needs stay. Asks before it removes judgments that could be
    used again.
    """
    with opened_store(flags, make=False) as store:
        now = store.clock()
        since = None if older_than is None else now - older_than
        sweep = PruneOptions(max_judgments=max_judgments, unused_since=since, judges=judges)
        done = preview_prune(store.connection, sweep, now=now)
        freed = None
        if not flags.dry_run:
            question = f"Remove {counted(done.reachable, 'judgment')} that could be used again?"
            yes = flags.assume_yes or not done.reachable
            if not flags.terminal.confirm(question, yes=yes, otherwise="nothing was removed"):
                return ExitCode.PARTLY
            done = prune_judgments(store.connection, sweep, now=now)
            freed = None
            if vacuum:
                freed = _vacuum(store, flags.terminal)
    about = done.judgments * JUDGMENT_BYTES
    totals = {
        "judgments": done.judgments,
        "about_bytes": about,
        "freed_bytes": freed,
        "dry_run": flags.dry_run,
    }
    flags.terminal.print_result(
        done, _render_pruned(done, freed, dry_run=flags.dry_run), more=totals
    )
    return 0


def _vacuum(store: "Store", terminal: Terminal) -> int | None:
    before = store.path.stat().st_size
    try:
        vacuum_store(store.connection)
    except StoreError as error:
        terminal.note(f"the file keeps its size: {error.message}")
        return None
    return before - store.path.stat().st_size


def _render_pruned(done: PruneResult, freed: int | None, *, dry_run: bool) -> str:
    verb = "would remove" if dry_run else "removed"
    lines = [
        f"{verb} {counted(done.judgments, 'judgment')}, about"
        f" {format_bytes(done.judgments * JUDGMENT_BYTES)}"
    ]
    for name, words in _CAUSES.items():
        count = getattr(done, name)
        if count:
            lines.append(f"  {count:,} {words}")
    if done.contents or done.quarantined:
        lines.append(
            f"  with {counted(done.contents, 'content')}, {counted(done.quarantined, 'score')} in"
            " quarantine"
        )
    if done.needed_now:
        lines.append(
            f"  {counted(done.needed_now, 'judgment')} kept, since running turns or jobs need them"
        )
    if freed is not None:
        lines.append(f"the file is {format_bytes(max(freed, 0))} smaller")
    return "\n".join(lines)


@command(JUDGE)
def show_cache(flags: Flags) -> None:
    """Count judgments, and those that no turn can use: their content is gone, or their judge is not
    configured.

    The hit rate is the share of candidates found in the cache; for a job, when it was planned.
    """
    with opened_store(flags, make=False) as store:
        judge = _configured_judge(store, flags)
        now = store.clock()
        stats = cache_stats(store.connection, store.path, judge=judge, now=now)
    reachable = stats.judgments - stats.unreachable - stats.parts_spare
    derived = {"reachable": reachable, "of_other_judges": stats.of_other_judges, "judge": judge}
    flags.terminal.print_result(
        stats, lambda one: render_facts(_cache_facts(one, now=now)), more=derived
    )
    if stats.unreadable:
        flags.terminal.note(f"could not be read: {', '.join(stats.unreadable)}. {REBUILD_HINT}")


def _cache_facts(stats: CacheStats, *, now: float) -> Iterator[tuple[str, str]]:
    kept = f"{counted(stats.contents, 'content')}, {counted(stats.reasons, 'reason')}"
    yield "judgments", f"{stats.judgments:,} of {counted(stats.turns, 'turn')}; {kept}"
    if stats.unreachable:
        yield (
            "unreachable",
            (
                f"{stats.unreachable:,} of contents that no memory has any more: `xscore store"
                " prune`"
            ),
        )
    if stats.parts_needed:
        yield (
            "parts",
            f"{stats.parts_needed:,} of memories too large for one pack, until the whole is judged",
        )
    if stats.parts_spare:
        yield (
            "parts",
            f"{stats.parts_spare:,} of memories that are judged as a whole: `xscore store prune`",
        )
    if stats.judgments and not stats.is_indexed:
        yield (
            "memories",
            "nothing is indexed yet, so it is not known what is still of use: run `xscore index`",
        )
    for number, judge in enumerate(stats.judges[:JUDGES_SHOWN]):
        last = ""
        if judge.used_at is not None:
            last = f", asked {format_age(judge.used_at, now)}"
        name = f"{one_line(judge.name)} {judge.judge[:8]}" if judge.name else judge.judge[:8]
        counts = f"{counted(judge.judgments, 'judgment')} of {counted(judge.turns, 'turn')}"
        yield (
            "" if number else "judges",
            f"{name}: {counts}{last}{', configured' if judge.is_configured else ''}",
        )
    if len(stats.judges) > JUDGES_SHOWN:
        yield "", f"and {counted(len(stats.judges) - JUDGES_SHOWN, 'judge')} more"
    yield from _hit_rates(stats.hit_rates)
    parts = [
        f"{name} {format_bytes(size)}" for name, size in (stats.parts or {}).items() if size
    ]
    parts += [f"free {format_bytes(stats.free_bytes)}"] if stats.free_bytes else []
    yield "bytes", format_bytes(stats.bytes) + (f": {' · '.join(parts)}" if parts else "")
    if stats.quarantined:
        yield (
            "quarantine",
            f"{counted(stats.quarantined, 'untrusted score')}: they only order the work and never"
            " count as scores",
        )


def _hit_rates(rates: Sequence[HitRate]) -> Iterator[tuple[str, str]]:
    shown: dict[str, list[str]] = {rate.of: [] for rate in rates}
    for rate in rates:
        if rate.candidates:
            share = format_share(rate.hits, rate.candidates)
            period = "in all"
            if rate.days:
                period = f"in {rate.days} days"
            candidates = counted(rate.candidates, "candidate")
            shown[rate.of].append(f"{share} of {candidates} {period}")
    for of, shares in shown.items():
        yield "hit rate" if of == "turns" else "jobs found", " · ".join(shares)


def _configured_judge(store: "Store", flags: Flags) -> str | None:
    try:
        return configured_judge(read_settings(flags).settings, store=store)
    except XscoreError as error:
        flags.terminal.note(f"the configured judge is unknown: {error.message}")
        return None


@command()
def trust_store(flags: Flags) -> None:
    """Accept the store of this repository, although it was made elsewhere or moved.

    The maker of a store chose its scores. Accept one you copied yourself; `xscore store rebuild`
    one that came with a clone.
    """
    settings = read_settings(flags).settings
    root = find_root(Path.cwd())
    data_dir = user_data_dir(settings.store.user_data_dir)
    store_dir = root.store_dir
    if root.earlier_store_dir and is_there(root.earlier_store_dir / STORE_FILE):
        # Few repositories have one.
        from xscore.store.earlier_place import take_over_earlier_store

        flags.terminal.notes(
            take_over_earlier_store(root, user_data_dir=data_dir, is_accepted=True)
        )
    if not is_there(store_dir / STORE_FILE):
        raise UsageError(
            f"there is no store at {store_dir}",
            hint="`xscore index` creates one; it is trusted as yours.",
        )
    accept_store(store_dir, user_data_dir=data_dir)
    body = {"store": str(store_dir), "action": "trusted", "aside": None, "salvaged": None}
    flags.terminal.print_result(body, f"trusted: {one_line(str(store_dir))}")
