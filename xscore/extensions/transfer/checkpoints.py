"""`xscore session save | load | checkpoints | delete`: a working session under a name.

`ask --checkpoint NAME` continues from one; `xscore shared checkpoint NAME` sends one to the team.
"""

import click

from xscore.cli.flags import Flags, command
from xscore.cli.options import DRY_RUN
from xscore.cli.phrases import format_age, format_branch
from xscore.cli.session import current_session
from xscore.cli.settings_and_store import opened_store, read_settings
from xscore.pipeline.json_form import record_json
from xscore.platform.errors import NothingMatched
from xscore.platform.text import counted, escape_controls, one_line
from xscore.prompts.answer import render_checkpoint
from xscore.records.turn import Checkpoint
from xscore.store.checkpoints import (
    erase_checkpoint,
    list_checkpoints,
    load_checkpoint,
    save_checkpoint,
)

CHECKPOINT_NOT_VERIFIED = 6
_NOT_CLEAN = (
    "not clean yet: another process reads the store and keeps its journal; end it, then run any"
    " command that erases"
)


@command()
@click.argument("name")
@click.option(
    "--note",
    "notes",
    metavar="TEXT",
    multiple=True,
    help="A note to save with it. Repeatable.",
)
@click.option(
    "--goal",
    "goals",
    metavar="TEXT",
    multiple=True,
    help="A goal that no task names. Repeatable.",
)
@click.option("--replace", is_flag=True, help="Replace an existing checkpoint.")
def save_session(
    name: str, notes: tuple[str, ...], goals: tuple[str, ...], replace: bool, flags: Flags
) -> None:
    """Save this branch's session as checkpoint NAME: goals, open tasks, names, files, and
    results."""
    with opened_store(flags) as store:
        session = current_session(store)
        if session is None:
            raise NothingMatched(
                "there is no session on this branch to save",
                hint='`xscore ask "…"` begins one.',
            )
        saved = save_checkpoint(
            store.connection,
            name,
            thread=session.thread,
            notes=notes,
            goals=goals,
            persona=read_settings(flags).settings.session.persona,
            replace=replace,
            now=store.clock(),
        )
    line = f"saved {one_line(saved.name)}: {_work(saved)}"
    flags.terminal.print_result(_checkpoint_json(saved), line)


@command()
@click.argument("name")
def show_checkpoint(name: str, flags: Flags) -> None:
    """Show checkpoint NAME as `ask --checkpoint NAME` uses it."""
    with opened_store(flags, make=False) as store:
        checkpoint = load_checkpoint(store.connection, name)
    flags.terminal.print_result(
        _checkpoint_json(checkpoint), escape_controls(render_checkpoint(checkpoint))
    )


@command()
def print_checkpoints(flags: Flags) -> None:
    """List the checkpoints of this repository, newest first."""
    with opened_store(flags, make=False) as store:
        checkpoints = list_checkpoints(store.connection)
        now = store.clock()
    body = {"checkpoints": [_checkpoint_json(checkpoint) for checkpoint in checkpoints]}
    lines = "\n".join(_checkpoint_line(checkpoint, now=now) for checkpoint in checkpoints)
    flags.terminal.print_result(body, lines, none="There is no checkpoint yet.")


@command(DRY_RUN)
@click.argument("name")
def delete_checkpoint(name: str, flags: Flags) -> int:
    """Erase checkpoint NAME for good: nothing of it stays in the files.

    The session itself stays.
    """
    with opened_store(flags) as store:
        checkpoint = load_checkpoint(store.connection, name)
        now = store.clock()
        is_clean = flags.dry_run or erase_checkpoint(store, checkpoint.name)
    verb = "would erase" if flags.dry_run else "erased"
    body = {"name": checkpoint.name, "dry_run": flags.dry_run, "is_clean": is_clean}
    flags.terminal.print_result(body, f"{verb} {_checkpoint_line(checkpoint, now=now)}")
    if is_clean:
        return 0
    flags.terminal.note(_NOT_CLEAN)
    return CHECKPOINT_NOT_VERIFIED


def _checkpoint_json(checkpoint: Checkpoint) -> dict[str, object]:
    body: dict[str, object] = {**record_json(checkpoint)}
    del body["entries"]
    return body


def _checkpoint_line(checkpoint: Checkpoint, *, now: float) -> str:
    branch = format_branch(checkpoint.branch)
    age = format_age(checkpoint.created_at, now)
    line = f"{checkpoint.name}  {branch}{age}, {_work(checkpoint)}"
    if checkpoint.by:
        line += f", from {checkpoint.by}"
    if checkpoint.goals:
        line += f"  {'; '.join(checkpoint.goals)}"
    return escape_controls(one_line(line))


def _work(checkpoint: Checkpoint) -> str:
    return f"{counted(len(checkpoint.entries), 'task')}, {len(checkpoint.pending)} left to do"
