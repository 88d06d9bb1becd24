"""`xscore memory consolidate`: bring what is remembered into order, or show what would be done and why."""

import click

from xscore.cli.opening import in_store
from xscore.cli.options import OUTPUT, Flags, options
from xscore.cli.terminal import echo, print_json
from xscore.learning.actions import SCOPES, Action, Consolidation
from xscore.learning.consolidate import consolidate as put_in_order
from xscore.pipeline.receipt import to_json
from xscore.safe_text import one_line
from xscore.wording import counted


@click.command()
@click.option(
    "--scope",
    type=click.Choice([*SCOPES, "all"]),
    default="all",
    show_default=True,
    help="Whose memories: the session's, the project's, yours.",
)
@click.option("--dry-run", is_flag=True, help="Show each action and why, and change nothing.")
@options(OUTPUT)
def consolidate(scope: str, dry_run: bool, flags: Flags) -> None:
    """Bring what is remembered into order; run it nightly, or whenever you like.

    What closed sessions learned becomes the project's, what holds in several projects yours; memories that say the
    same are merged; confidence fades, what is long unused is archived or erased. A second run does nothing.
    """
    terminal = flags.terminal
    scopes = tuple(each for each in SCOPES if scope in (each, "all"))
    done = in_store(
        lambda store: put_in_order(store, store.settings, now=store.clock(), scopes=scopes, dry_run=dry_run), flags
    )
    for note in done.skipped:
        terminal.note(f"skipped {note}")
    if terminal.as_json:
        print_json(to_json(done))
    else:
        echo(page(done))


def page(done: Consolidation) -> str:
    """One line an action, then how many of each."""
    if not done.actions:
        return f"nothing to do · {counted(done.considered, 'memory', 'memories')} looked at"
    lines = [_line(action) for action in done.actions]
    counts = " · ".join(f"{count:,} {kind}" for kind, count in done.counts.items())
    verb = "would do" if done.dry_run else "done"
    return "\n".join([*lines, f"{verb}  {counts} · {counted(done.considered, 'memory', 'memories')} looked at"])


def _line(action: Action) -> str:
    name = action.memory_ids[0] if action.memory_ids else "-"
    title = f"  {one_line(action.title)}" if action.title else ""
    return f"{action.kind:<9} {action.scope:<7} {name}{title}\n{'':17} {one_line(action.why)}"
