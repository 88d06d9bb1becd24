"""`xscore cache prune`: sweep judgments that nothing can reach, and on demand those of old turns or other judges.

`xscore cache stats`: what the cache holds, what of it is of use, and how often it spared a call.

`xscore trust`: believe a store that was made elsewhere, or set it aside and build a new one.

The one command that works without opening the pipeline first, since that is what was refused.
"""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from xscore.cli.opening import in_pipeline, in_store, read_settings
from xscore.cli.options import MODELS, OUTPUT, Flags, PeriodType, options
from xscore.cli.phrases import format_age
from xscore.cli.progress import TurnObserver
from xscore.cli.terminal import Terminal, print_json, write_stdout
from xscore.pipeline.json_form import SCHEMA
from xscore.platform.errors import StoreError, UsageError, XscoreError
from xscore.platform.text import counted, format_bytes, format_share, one_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from xscore.cache.prune import PruneResult
    from xscore.cache.stats import CacheStats, HitRate
    from xscore.store.opening import RebuiltStore
    from xscore.store.store import Store


DECLINED = 1
"""Exit code."""
_CAUSES = (
    ("unreachable", "of contents that no memory shows any more"),
    ("parts", "of parts of memories that are judged as a whole"),
    ("unused", "of turns not asked for so long"),
    ("of_judges", "of the judges that were named"),
    ("over_cap", "beyond the cap, of the turns longest unused"),
)


@click.command()
@click.option("--dry-run", is_flag=True, help="Say what would go; change nothing.")
@click.option("--max-judgments", metavar="N", type=click.IntRange(min=0), help="Keep at most so many: 2,000,000.")
@click.option("--older-than", metavar="STRETCH", type=PeriodType(), help="Also of turns last asked before 90d, 12w.")
@click.option("--judge", metavar="KEY", multiple=True, help="Also all of this judge: its name, or its key. Repeatable.")
@click.option("--vacuum", is_flag=True, help="Then write the file anew, without its free pages.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask before judgments go that could be used again.")
@options(OUTPUT)
def prune_cache(  # noqa: PLR0917  click hands them by name
    dry_run: bool,
    max_judgments: int | None,
    older_than: float | None,
    judge: tuple[str, ...],
    vacuum: bool,
    yes: bool,
    flags: Flags,
) -> int:
    """Remove judgments of contents that no memory shows any more, and what else you name; scores in quarantine too.

    What a turn or a job under way rests on stays. Asks before judgments go that could be used again; scripts say --yes.
    """

    def work(store: "Store") -> int:
        from xscore.cache.prune import MAX_JUDGMENTS, PruneOptions, preview_prune
        from xscore.cache.prune import prune_judgments as sweep_now

        sweep = PruneOptions(
            max_judgments=MAX_JUDGMENTS if max_judgments is None else max_judgments,
            unused_since=None if older_than is None else store.clock() - older_than,
            judges=judge,
        )
        foreseen = preview_prune(store.connection, sweep, now=store.clock())
        if dry_run:
            _print_pruned(foreseen, flags.terminal, dry_run=True, freed=None)
            return 0
        if not _confirm_prune(foreseen, flags.terminal, yes=yes):
            return DECLINED
        done = sweep_now(store.connection, sweep, now=store.clock())
        _print_pruned(done, flags.terminal, dry_run=False, freed=_shrunk(store, flags.terminal) if vacuum else None)
        return 0

    return in_store(work, flags, make=False)


def _confirm_prune(foreseen: "PruneResult", terminal: Terminal, *, yes: bool) -> bool:
    if yes or not foreseen.reachable:
        return True
    if not terminal.can_ask:
        raise UsageError(
            f"{counted(foreseen.reachable, 'judgment')} that could be used again would go, and there is nobody to ask",
            hint="Say --yes, or look first with --dry-run.",
        )
    question = f"Remove {counted(foreseen.reachable, 'judgment')} that could be used again?"
    if click.confirm(question, default=False, err=True):
        return True
    terminal.note("nothing was removed")
    return False


def _shrunk(store: "Store", terminal: Terminal) -> int | None:
    """Shrink the file; return the bytes that this gave back, None where another process holds it."""
    from xscore.cache.prune import vacuum_store

    before = store.path.stat().st_size
    try:
        vacuum_store(store.connection)
    except StoreError as error:
        terminal.note(f"the file keeps its size: {error.message}")
        return None
    return before - store.path.stat().st_size


def _print_pruned(done: "PruneResult", terminal: Terminal, *, dry_run: bool, freed: int | None) -> None:
    from xscore.cache.prune import JUDGMENT_BYTES
    from xscore.pipeline.json_form import to_json

    about = done.judgments * JUDGMENT_BYTES
    if terminal.as_json:
        told = {"judgments": done.judgments, "about_bytes": about, "freed_bytes": freed, "dry_run": dry_run}
        print_json({**to_json(done), **told})
        return
    verb = "would remove" if dry_run else "removed"
    lines = [f"{verb} {counted(done.judgments, 'judgment')}, about {format_bytes(about)}"]
    counts = {name: getattr(done, name) for name, _ in _CAUSES}
    lines += [f"  {counts[name]:,} {words}" for name, words in _CAUSES if counts[name]]
    if done.contents or done.hearsay:
        lines.append(f"  with {counted(done.contents, 'content')}, {counted(done.hearsay, 'score')} in quarantine")
    if done.needed_now:
        lines.append(f"  {counted(done.needed_now, 'judgment')} kept, as turns or jobs under way rest on them")
    if freed is not None:
        lines.append(f"the file is {format_bytes(max(freed, 0))} smaller")
    write_stdout("\n".join(lines))


JUDGES_SHOWN = 8


@click.command()
@options({"judge": MODELS["judge"]}, OUTPUT)
def cache_stats_command(flags: Flags) -> None:
    """Count judgments, and those that no turn can use: of contents that are gone, of judges that are not configured.

    The hit rate is what turns found in the cache, of all their candidates; of a job, when it was planned.
    """

    def work(store: "Store") -> None:
        from xscore.cache.stats import cache_stats
        from xscore.pipeline.json_form import SCHEMA, record_json

        judge = _configured_judge(store, flags)
        found = cache_stats(store.connection, store.path, judge=judge, now=store.clock())
        if flags.terminal.as_json:
            derived = {
                "reachable": found.judgments - found.unreachable - found.parts_spare,
                "of_other_judges": found.of_other_judges,
            }
            print_json({"schema": SCHEMA, **record_json(found), **derived, "judge": judge})
            return
        write_stdout("\n".join(render_cache_stats(found, now=store.clock())))
        _warn_unreadable(found, flags.terminal)

    in_store(work, flags, make=False)


def render_cache_stats(found: "CacheStats", *, now: float) -> "Iterator[str]":
    """Say it in lines, a label before each."""
    yield (
        f"judgments   {found.judgments:,} of {counted(found.turns, 'turn')};"
        f" {counted(found.contents, 'content')}, {counted(found.reasons, 'reason')}"
    )
    if found.unreachable:
        yield f"unreachable {found.unreachable:,} of contents that no memory shows any more: `xscore cache prune`"
    if found.parts_needed:
        yield f"parts       {found.parts_needed:,} of memories too large for one pack, until the whole is judged"
    if found.parts_spare:
        yield f"parts       {found.parts_spare:,} of memories that are judged as a whole: `xscore cache prune`"
    if found.judgments and not found.is_indexed:
        yield "memories    nothing is indexed yet, so that nobody can tell what is of use: `xscore index`"
    for number, one in enumerate(found.judges[:JUDGES_SHOWN]):
        last = f", asked {format_age(one.used_at, now)}" if one.used_at is not None else ""
        name = f"{one_line(one.name)} {one.judge[:8]}" if one.name else one.judge[:8]
        configured = ", configured" if one.is_configured else ""
        told = f"{counted(one.judgments, 'judgment')} of {counted(one.turns, 'turn')}{last}{configured}"
        yield f"{'' if number else 'judges':<12}{name}: {told}"
    if len(found.judges) > JUDGES_SHOWN:
        yield f"{'':<12}and {counted(len(found.judges) - JUDGES_SHOWN, 'judge')} more"
    yield from _hit_rates(found.hit_rates)
    yield f"bytes       {format_bytes(found.bytes)}{_bytes_by_part(found)}"
    if found.hearsay:
        yield f"quarantine  {counted(found.hearsay, 'score')} that nobody vouches for: they order work and never score"


def _hit_rates(rates: "tuple[HitRate, ...]") -> "Iterator[str]":
    for of in dict.fromkeys(rate.of for rate in rates):
        own = [rate for rate in rates if rate.of == of and rate.candidates]
        told = [
            f"{format_share(rate.hits, rate.candidates)} of {counted(rate.candidates, 'candidate')}"
            f" {f'in {rate.days} days' if rate.days else 'in all'}"
            for rate in own
        ]
        if told:
            yield f"{'hit rate' if of == 'turns' else 'jobs found':<12}{' · '.join(told)}"


def _bytes_by_part(found: "CacheStats") -> str:
    parts = [f"{name} {format_bytes(count)}" for name, count in (found.parts or {}).items() if count]
    free = [f"free {format_bytes(found.free_bytes)}"] if found.free_bytes else []
    return f": {' · '.join(parts + free)}" if parts or free else ""


def _configured_judge(store: "Store", flags: Flags) -> str | None:
    """Return the key of the configured judge; where that cannot be told, say why."""
    from xscore.pipeline.factories import configured_judge

    try:
        return configured_judge(read_settings(flags).settings, store=store)
    except XscoreError as error:
        flags.terminal.note(f"which judge is configured cannot be told: {error.message}")
        return None


def _warn_unreadable(found: "CacheStats", terminal: Terminal) -> None:
    from xscore.platform.sqlite_drivers import REBUILD_HINT

    if found.unreadable:
        terminal.note(f"could not be read: {', '.join(found.unreadable)}. {REBUILD_HINT}")


@click.command()
@click.option("--rebuild", is_flag=True, help="Set the store aside and build a new one, with what is left of yours.")
@click.option("--user", is_flag=True, help="With --rebuild: your own store, and no project's.")
@options(OUTPUT)
def trust(rebuild: bool, user: bool, flags: Flags) -> None:
    """Accept the store of this repository, although it was made elsewhere or moved.

    Whoever made a store chose its scores. Accept what you copied yourself; rebuild what came with a clone.
    """
    from xscore.platform.paths import find_root, user_data_dir

    settings = read_settings(flags)
    store_dir = find_root(Path.cwd()).store_dir
    user_data = user_data_dir(settings.settings.store.user_data_dir)
    if user:
        _rebuild_user_store(user_data, flags.terminal, rebuild=rebuild)
        return
    if not rebuild:
        _accept(store_dir, user_data)
        said = {"schema": SCHEMA, "store": str(store_dir), "action": "trusted", "aside": None, "salvaged": None}
        print_json(said) if flags.terminal.as_json else write_stdout(f"trusted: {one_line(str(store_dir))}")
        return
    from xscore.store.opening import rebuild_store as build_anew

    rebuilt = build_anew(store_dir, user_data_dir=user_data)
    in_pipeline(lambda open_: open_.index(), settings, TurnObserver(flags.terminal))
    _print_rebuilt(store_dir, rebuilt, flags.terminal)


def _print_rebuilt(store_dir: Path, rebuilt: "RebuiltStore", terminal: Terminal) -> None:
    salvaged = rebuilt.salvaged
    if terminal.as_json:
        counts = salvaged and {
            **salvaged.kept,
            "rows_not_believed": salvaged.not_believed,
            "places_not_read": salvaged.places,
            "batches_at_vendors": salvaged.at_vendors,
        }
        aside = str(rebuilt.aside) if rebuilt.aside else None
        said = {"schema": SCHEMA, "store": str(store_dir), "action": "rebuilt", "aside": aside, "salvaged": counts}
        print_json(said)
        return
    write_stdout(f"built anew: {one_line(str(store_dir))}")
    if rebuilt.aside:
        write_stdout(f"set aside: {one_line(str(rebuilt.aside))}")
        write_stdout(salvaged.words if salvaged else "salvaged nothing: it could not be shown that you made it here")


def _rebuild_user_store(user_data: Path, terminal: Terminal, *, rebuild: bool) -> None:
    from xscore.extensions.recovery.rebuild import rebuild_user_store
    from xscore.store.opening import user_store_path

    if not rebuild:
        raise UsageError(
            "your own store is believed as it is", hint="To build it anew: `xscore trust --rebuild --user`."
        )
    _print_rebuilt(user_store_path(user_data), rebuild_user_store(user_data), terminal)


def _accept(store_dir: Path, user_data: Path) -> None:
    from xscore.platform.paths import STORE_FILE
    from xscore.store.opening import accept_store

    if not (store_dir / STORE_FILE).exists():
        raise UsageError(f"there is no store at {store_dir}", hint="`xscore index` makes one; it is trusted as yours.")
    accept_store(store_dir, user_data_dir=user_data)
