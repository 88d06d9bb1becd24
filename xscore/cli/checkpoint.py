"""`xscore checkpoint`: keep the working session under a name, to go on from it in any later turn.

It opens the store alone: no model is asked. `ask --checkpoint NAME` is what goes on from one.
"""

from typing import TYPE_CHECKING

import click

from xscore.cli.opening import in_store, read_settings
from xscore.cli.options import OUTPUT, Flags, options
from xscore.cli.session_words import ago, place_of, tasks
from xscore.cli.terminal import echo, print_json
from xscore.errors import NothingMatched
from xscore.safe_text import one_line, visible

if TYPE_CHECKING:
    from xscore.memory.store import Store
    from xscore.records import Checkpoint

NOT_CLEAN = 6


@click.group()
def checkpoint() -> None:
    """Save, show, list and erase named snapshots of the working session."""


@checkpoint.command()
@click.argument("name")
@click.option("--note", "notes", metavar="TEXT", multiple=True, help="Something to remember with it. Repeatable.")
@click.option("--goal", "goals", metavar="TEXT", multiple=True, help="Its goal, where no task names it. Repeatable.")
@click.option("--replace", is_flag=True, help="One of that name goes, with its notes and goals.")
@options(OUTPUT)
def save(name: str, notes: tuple[str, ...], goals: tuple[str, ...], replace: bool, flags: Flags) -> None:
    """Keep this branch's session as NAME: goals, open tasks, names, files, and what was done."""

    def work(store: "Store") -> None:
        from xscore.cli.session import current_session
        from xscore.memory import checkpoints

        found = current_session(store)
        if found is None:
            raise NothingMatched("there is no session on this branch to keep", hint='`xscore ask "…"` begins one.')
        persona = read_settings(flags).settings.session.persona
        saved = checkpoints.save(
            store.connection,
            name,
            thread=found.thread,
            notes=notes,
            goals=goals,
            persona=persona,
            replace=replace,
            now=store.clock(),
        )
        said = f"saved {one_line(saved.name)}: {tasks(len(saved.entries))}, {len(saved.pending)} left to do"
        _print(saved) if flags.terminal.as_json else echo(said)

    in_store(work, flags)


@checkpoint.command()
@click.argument("name")
@options(OUTPUT)
def load(name: str, flags: Flags) -> None:
    """Show what is in checkpoint NAME, as `ask --checkpoint NAME` hands it on."""

    def work(store: "Store") -> None:
        from xscore.memory import checkpoints

        found = checkpoints.load(store.connection, name)
        _print(found) if flags.terminal.as_json else flags.terminal.data(checkpoints.render(found))

    in_store(work, flags)


@checkpoint.command(name="list")
@options(OUTPUT)
def list_all(flags: Flags) -> None:
    """List the checkpoints of this repository, newest first."""

    def work(store: "Store") -> None:
        from xscore.memory import checkpoints
        from xscore.pipeline.receipt import SCHEMA

        known = checkpoints.checkpoints(store.connection)
        now = store.clock()
        if flags.terminal.as_json:
            print_json({"schema": SCHEMA, "checkpoints": [body(one) for one in known]})
        elif known:
            echo("\n".join(_line(one, now=now) for one in known))
        else:
            flags.terminal.note("There is no checkpoint yet.")

    in_store(work, flags)


@checkpoint.command()
@click.argument("name")
@click.option("--dry-run", is_flag=True, help="Say what would go; change nothing.")
@options(OUTPUT)
def delete(name: str, dry_run: bool, flags: Flags) -> int:
    """Erase checkpoint NAME for good: nothing of it stays in the files. The session itself stays."""

    def work(store: "Store") -> int:
        from xscore.memory import checkpoints
        from xscore.pipeline.receipt import SCHEMA

        found = checkpoints.load(store.connection, name)
        is_clean = dry_run or checkpoints.delete(store, found.name)
        if flags.terminal.as_json:
            print_json({"schema": SCHEMA, "name": found.name, "dry_run": dry_run, "is_clean": is_clean})
        else:
            echo(f"{'would erase' if dry_run else 'erased'} {_line(found, now=store.clock())}")
        if not is_clean:
            flags.terminal.note("not clean yet: another process reads the store and keeps its journal; end it, then run"
                                " any command that erases")  # fmt: skip
        return 0 if is_clean else NOT_CLEAN

    return in_store(work, flags)


def body(found: "Checkpoint") -> dict[str, object]:
    """Return a checkpoint as its JSON, without a schema and without the entries that it was gathered from."""
    from xscore.pipeline.receipt import plain

    return {name: value for name, value in plain(found).items() if name != "entries"}


def _print(found: "Checkpoint") -> None:
    from xscore.pipeline.receipt import SCHEMA

    print_json({"schema": SCHEMA, **body(found)})


def _line(found: "Checkpoint", *, now: float) -> str:
    counted = f"{tasks(len(found.entries))}, {len(found.pending)} left to do"
    goals = f"  {'; '.join(found.goals)}" if found.goals else ""
    return visible(one_line(f"{found.name}  {place_of(found.branch)}{ago(found.created_at, now)}, {counted}{goals}"))
