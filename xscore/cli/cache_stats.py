"""`xscore cache stats`: what the cache holds, what of it is of use, and how often it spared a call."""

from typing import TYPE_CHECKING

import click

from xscore.cli.opening import in_store, read_settings
from xscore.cli.options import MODELS, OUTPUT, Flags, options
from xscore.cli.session_words import ago
from xscore.cli.terminal import Terminal, echo, print_json
from xscore.errors import XscoreError
from xscore.safe_text import one_line
from xscore.wording import counted, share, size

if TYPE_CHECKING:
    from collections.abc import Iterator

    from xscore.cache.stats import CacheStats, HitRate
    from xscore.memory.store import Store

JUDGES_SHOWN = 8


@click.command()
@options({"judge": MODELS["judge"]}, OUTPUT)
def stats(flags: Flags) -> None:
    """Count judgments, and those that no turn can use: of contents that are gone, of judges that are not configured.

    The hit rate is what turns found in the cache, of all their candidates; of a job, when it was planned.
    """

    def work(store: "Store") -> None:
        from xscore.cache.stats import cache_stats
        from xscore.pipeline.receipt import SCHEMA, plain

        judge = _configured(store, flags)
        found = cache_stats(store.connection, store.path, judge=judge, now=store.clock())
        if flags.terminal.as_json:
            derived = {
                "reachable": found.judgments - found.unreachable - found.parts_spare,
                "of_other_judges": found.of_other_judges,
            }
            print_json({"schema": SCHEMA, **plain(found), **derived, "judge": judge})
            return
        echo("\n".join(page(found, now=store.clock())))
        _warn(found, flags.terminal)

    in_store(work, flags, make=False)


def page(found: "CacheStats", *, now: float) -> "Iterator[str]":
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
        last = f", asked {ago(one.used_at, now)}" if one.used_at is not None else ""
        name = f"{one_line(one.name)} {one.judge[:8]}" if one.name else one.judge[:8]
        configured = ", configured" if one.is_configured else ""
        told = f"{counted(one.judgments, 'judgment')} of {counted(one.turns, 'turn')}{last}{configured}"
        yield f"{'' if number else 'judges':<12}{name}: {told}"
    if len(found.judges) > JUDGES_SHOWN:
        yield f"{'':<12}and {counted(len(found.judges) - JUDGES_SHOWN, 'judge')} more"
    yield from _hit_rates(found.hit_rates)
    yield f"bytes       {size(found.bytes)}{_parts(found)}"
    if found.hearsay:
        yield f"quarantine  {counted(found.hearsay, 'score')} that nobody vouches for: they order work and never score"


def _hit_rates(rates: "tuple[HitRate, ...]") -> "Iterator[str]":
    for of in dict.fromkeys(rate.of for rate in rates):
        own = [rate for rate in rates if rate.of == of and rate.candidates]
        told = [
            f"{share(rate.hits, rate.candidates)} of {counted(rate.candidates, 'candidate')}"
            f" {f'in {rate.days} days' if rate.days else 'in all'}"
            for rate in own
        ]
        if told:
            yield f"{'hit rate' if of == 'turns' else 'jobs found':<12}{' · '.join(told)}"


def _parts(found: "CacheStats") -> str:
    parts = [f"{name} {size(count)}" for name, count in (found.parts or {}).items() if count]
    free = [f"free {size(found.free_bytes)}"] if found.free_bytes else []
    return f": {' · '.join(parts + free)}" if parts or free else ""


def _configured(store: "Store", flags: Flags) -> str | None:
    """Return the key of the configured judge; where that cannot be told, say why."""
    from xscore.pipeline.seats import configured_judge

    try:
        return configured_judge(read_settings(flags).settings, store=store)
    except XscoreError as error:
        flags.terminal.note(f"which judge is configured cannot be told: {error.message}")
        return None


def _warn(found: "CacheStats", terminal: Terminal) -> None:
    from xscore.database import REBUILD

    if found.unreadable:
        terminal.note(f"could not be read: {', '.join(found.unreadable)}. {REBUILD}")
