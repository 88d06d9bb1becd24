"""`xscore session save | load | checkpoints | delete`: the working session under a name, to go on from later.

It opens the store alone: no model is asked. `ask --checkpoint NAME` goes on from a checkpoint.
"""

from typing import TYPE_CHECKING

import click

from xscore.cli.opening import in_store, read_settings
from xscore.cli.options import DRY_RUN, Flags, command, options
from xscore.cli.phrases import count_tasks, format_age, format_branch
from xscore.cli.session import current_session
from xscore.extensions.exchange import checkpoints
from xscore.pipeline.json_form import record_json
from xscore.platform.errors import NothingMatched
from xscore.platform.text import escape_controls, one_line
from xscore.prompts.answer import render_checkpoint

if TYPE_CHECKING:
    from xscore.records import Checkpoint
    from xscore.store.store import Store

CHECKPOINT_NOT_VERIFIED = 6


@command()
@click.argument("name")
@click.option("--note", "notes", metavar="TEXT", multiple=True, help="Something to remember with it. Repeatable.")
@click.option("--goal", "goals", metavar="TEXT", multiple=True, help="Its goal, where no task names it. Repeatable.")
@click.option("--replace", is_flag=True, help="Replace a checkpoint of that name.")
@options()
def save_checkpoint(name: str, notes: tuple[str, ...], goals: tuple[str, ...], replace: bool, flags: Flags) -> None:
    """Keep this branch's session as checkpoint NAME: goals, open tasks, names, files, and what was done."""

    def work(store: "Store") -> None:
        found = current_session(store)
        if found is None:
            raise NothingMatched("there is no session on this branch to keep", hint='`xscore ask "…"` begins one.')
        saved = checkpoints.save_checkpoint(
            store.connection,
            name,
            thread=found.thread,
            notes=notes,
            goals=goals,
            persona=read_settings(flags).settings.session.persona,
            replace=replace,
            now=store.clock(),
        )
        line = f"saved {one_line(saved.name)}: {count_tasks(len(saved.entries))}, {len(saved.pending)} left to do"
        flags.terminal.print_result(checkpoint_json(saved), lambda _: line)

    in_store(work, flags)


@command()
@click.argument("name")
@options()
def show_checkpoint(name: str, flags: Flags) -> None:
    """Show what is in checkpoint NAME, as `ask --checkpoint NAME` hands it on."""

    def work(store: "Store") -> None:
        found = checkpoints.load_checkpoint(store.connection, name)
        if flags.terminal.as_json:
            flags.terminal.print_result(checkpoint_json(found), str)
        else:
            flags.terminal.data(render_checkpoint(found))

    in_store(work, flags)


@command()
@options()
def list_checkpoints(flags: Flags) -> None:
    """List the checkpoints of this repository, newest first."""

    def work(store: "Store") -> None:
        known, now = checkpoints.list_checkpoints(store.connection), store.clock()
        if known or flags.terminal.as_json:
            body = {"checkpoints": [checkpoint_json(one) for one in known]}
            flags.terminal.print_result(body, lambda _: "\n".join(_checkpoint_line(one, now=now) for one in known))
        else:
            flags.terminal.note("There is no checkpoint yet.")

    in_store(work, flags)


@command()
@click.argument("name")
@options(DRY_RUN)
def delete_checkpoint(name: str, flags: Flags) -> int:
    """Erase checkpoint NAME for good: nothing of it stays in the files. The session itself stays."""
    dry_run = bool(flags.given["dry_run"])

    def work(store: "Store") -> int:
        found = checkpoints.load_checkpoint(store.connection, name)
        is_clean = dry_run or checkpoints.erase_checkpoint(store, found.name)
        line = f"{'would erase' if dry_run else 'erased'} {_checkpoint_line(found, now=store.clock())}"
        body = {"name": found.name, "dry_run": dry_run, "is_clean": is_clean}
        flags.terminal.print_result(body, lambda _: line)
        if not is_clean:
            flags.terminal.note(
                "not clean yet: another process reads the store and keeps its journal; end it, then run any command"
                " that erases"
            )
        return 0 if is_clean else CHECKPOINT_NOT_VERIFIED

    return in_store(work, flags)


def checkpoint_json(found: "Checkpoint") -> dict[str, object]:
    """Return a checkpoint as its JSON, without a schema and without the entries that it was gathered from."""
    return {name: value for name, value in record_json(found).items() if name != "entries"}


def _checkpoint_line(found: "Checkpoint", *, now: float) -> str:
    work = f"{count_tasks(len(found.entries))}, {len(found.pending)} left to do"
    goals = f"  {'; '.join(found.goals)}" if found.goals else ""
    age = format_age(found.created_at, now)
    return escape_controls(one_line(f"{found.name}  {format_branch(found.branch)}{age}, {work}{goals}"))
