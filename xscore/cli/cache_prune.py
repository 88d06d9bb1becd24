"""`xscore cache prune`: sweep judgments that nothing can reach, and on demand those of old turns or other judges."""

from typing import TYPE_CHECKING

import click

from xscore.cli.opening import in_store
from xscore.cli.options import OUTPUT, Flags, options
from xscore.cli.spans import Stretch
from xscore.cli.terminal import Terminal, echo, print_json
from xscore.errors import StoreError, UsageError
from xscore.wording import counted, size

if TYPE_CHECKING:
    from xscore.cache.prune import Pruned
    from xscore.memory.store import Store

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
@click.option("--older-than", metavar="STRETCH", type=Stretch(), help="Also of turns last asked before 90d, 12w.")
@click.option("--judge", metavar="KEY", multiple=True, help="Also all of this judge: its name, or its key. Repeatable.")
@click.option("--vacuum", is_flag=True, help="Then write the file anew, without its free pages.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask before judgments go that could be used again.")
@options(OUTPUT)
def prune(  # noqa: PLR0917  click hands them by name
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
        from xscore.cache.prune import MAX_JUDGMENTS, Sweep, preview
        from xscore.cache.prune import prune as sweep_now

        sweep = Sweep(
            max_judgments=MAX_JUDGMENTS if max_judgments is None else max_judgments,
            unused_since=None if older_than is None else store.clock() - older_than,
            judges=judge,
        )
        foreseen = preview(store.connection, sweep, now=store.clock())
        if dry_run:
            _tell(foreseen, flags.terminal, dry_run=True, freed=None)
            return 0
        if not _agreed(foreseen, flags.terminal, yes=yes):
            return DECLINED
        done = sweep_now(store.connection, sweep, now=store.clock())
        _tell(done, flags.terminal, dry_run=False, freed=_shrunk(store, flags.terminal) if vacuum else None)
        return 0

    return in_store(work, flags, make=False)


def _agreed(foreseen: "Pruned", terminal: Terminal, *, yes: bool) -> bool:
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
    from xscore.cache.prune import shrink

    before = store.path.stat().st_size
    try:
        shrink(store.connection)
    except StoreError as error:
        terminal.note(f"the file keeps its size: {error.message}")
        return None
    return before - store.path.stat().st_size


def _tell(done: "Pruned", terminal: Terminal, *, dry_run: bool, freed: int | None) -> None:
    from xscore.cache.prune import BYTES
    from xscore.pipeline.receipt import to_json

    about = done.judgments * BYTES
    if terminal.as_json:
        told = {"judgments": done.judgments, "about_bytes": about, "freed_bytes": freed, "dry_run": dry_run}
        print_json({**to_json(done), **told})
        return
    verb = "would remove" if dry_run else "removed"
    lines = [f"{verb} {counted(done.judgments, 'judgment')}, about {size(about)}"]
    counts = {name: getattr(done, name) for name, _ in _CAUSES}
    lines += [f"  {counts[name]:,} {words}" for name, words in _CAUSES if counts[name]]
    if done.contents or done.hearsay:
        lines.append(f"  with {counted(done.contents, 'content')}, {counted(done.hearsay, 'score')} in quarantine")
    if done.needed_now:
        lines.append(f"  {counted(done.needed_now, 'judgment')} kept, as turns or jobs under way rest on them")
    if freed is not None:
        lines.append(f"the file is {size(max(freed, 0))} smaller")
    echo("\n".join(lines))
