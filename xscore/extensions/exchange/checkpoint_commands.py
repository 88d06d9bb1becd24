"""`xscore checkpoint`: keep the working session under a name, to go on from it in any later turn.

It opens the store alone: no model is asked. `ask --checkpoint NAME` is what goes on from one.
"""

from typing import TYPE_CHECKING

import click

from xscore.cli.opening import in_store, read_settings
from xscore.cli.options import OUTPUT, Flags, options
from xscore.cli.phrases import count_tasks, format_age, format_branch
from xscore.cli.terminal import print_json, write_stdout
from xscore.platform.errors import NothingMatched
from xscore.platform.text import escape_controls, one_line
from xscore.prompts.answer import render_checkpoint

if TYPE_CHECKING:
    from xscore.records import Checkpoint
    from xscore.store.store import Store


CHECKPOINT_NOT_VERIFIED = 6


@click.group()
def checkpoint() -> None:
    """Save, show, list and erase named snapshots of the working session."""


@checkpoint.command("save")
@click.argument("name")
@click.option("--note", "notes", metavar="TEXT", multiple=True, help="Something to remember with it. Repeatable.")
@click.option("--goal", "goals", metavar="TEXT", multiple=True, help="Its goal, where no task names it. Repeatable.")
@click.option("--replace", is_flag=True, help="One of that name goes, with its notes and goals.")
@options(OUTPUT)
def save_checkpoint(name: str, notes: tuple[str, ...], goals: tuple[str, ...], replace: bool, flags: Flags) -> None:
    """Keep this branch's session as NAME: goals, open tasks, names, files, and what was done."""

    def work(store: "Store") -> None:
        from xscore.cli.session import current_session
        from xscore.extensions.exchange import checkpoints

        found = current_session(store)
        if found is None:
            raise NothingMatched("there is no session on this branch to keep", hint='`xscore ask "…"` begins one.')
        persona = read_settings(flags).settings.session.persona
        saved = checkpoints.save_checkpoint(
            store.connection,
            name,
            thread=found.thread,
            notes=notes,
            goals=goals,
            persona=persona,
            replace=replace,
            now=store.clock(),
        )
        said = f"saved {one_line(saved.name)}: {count_tasks(len(saved.entries))}, {len(saved.pending)} left to do"
        _print_checkpoint(saved) if flags.terminal.as_json else write_stdout(said)

    in_store(work, flags)


@checkpoint.command("load")
@click.argument("name")
@options(OUTPUT)
def show_checkpoint(name: str, flags: Flags) -> None:
    """Show what is in checkpoint NAME, as `ask --checkpoint NAME` hands it on."""

    def work(store: "Store") -> None:
        from xscore.extensions.exchange import checkpoints

        found = checkpoints.load_checkpoint(store.connection, name)
        _print_checkpoint(found) if flags.terminal.as_json else flags.terminal.data(render_checkpoint(found))

    in_store(work, flags)


@checkpoint.command("list")
@options(OUTPUT)
def list_checkpoints(flags: Flags) -> None:
    """List the checkpoints of this repository, newest first."""

    def work(store: "Store") -> None:
        from xscore.extensions.exchange import checkpoints
        from xscore.pipeline.json_form import SCHEMA

        known = checkpoints.list_checkpoints(store.connection)
        now = store.clock()
        if flags.terminal.as_json:
            print_json({"schema": SCHEMA, "checkpoints": [checkpoint_json(one) for one in known]})
        elif known:
            write_stdout("\n".join(_checkpoint_line(one, now=now) for one in known))
        else:
            flags.terminal.note("There is no checkpoint yet.")

    in_store(work, flags)


@checkpoint.command("delete")
@click.argument("name")
@click.option("--dry-run", is_flag=True, help="Say what would go; change nothing.")
@options(OUTPUT)
def delete_checkpoint(name: str, dry_run: bool, flags: Flags) -> int:
    """Erase checkpoint NAME for good: nothing of it stays in the files. The session itself stays."""

    def work(store: "Store") -> int:
        from xscore.extensions.exchange import checkpoints
        from xscore.pipeline.json_form import SCHEMA

        found = checkpoints.load_checkpoint(store.connection, name)
        is_clean = dry_run or checkpoints.erase_checkpoint(store, found.name)
        if flags.terminal.as_json:
            print_json({"schema": SCHEMA, "name": found.name, "dry_run": dry_run, "is_clean": is_clean})
        else:
            write_stdout(f"{'would erase' if dry_run else 'erased'} {_checkpoint_line(found, now=store.clock())}")
        if not is_clean:
            flags.terminal.note("not clean yet: another process reads the store and keeps its journal; end it, then run"
                                " any command that erases")  # fmt: skip
        return 0 if is_clean else CHECKPOINT_NOT_VERIFIED

    return in_store(work, flags)


def checkpoint_json(found: "Checkpoint") -> dict[str, object]:
    """Return a checkpoint as its JSON, without a schema and without the entries that it was gathered from."""
    from xscore.pipeline.json_form import record_json

    return {name: value for name, value in record_json(found).items() if name != "entries"}


def _print_checkpoint(found: "Checkpoint") -> None:
    from xscore.pipeline.json_form import SCHEMA

    print_json({"schema": SCHEMA, **checkpoint_json(found)})


def _checkpoint_line(found: "Checkpoint", *, now: float) -> str:
    counted = f"{count_tasks(len(found.entries))}, {len(found.pending)} left to do"
    goals = f"  {'; '.join(found.goals)}" if found.goals else ""
    return escape_controls(
        one_line(f"{found.name}  {format_branch(found.branch)}{format_age(found.created_at, now)}, {counted}{goals}")
    )
