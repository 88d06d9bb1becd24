"""`xscore shared session`: bring the latest exchanges of your other machine into this
branch's session."""

import asyncio

import click

from xscore.cli.flags import Flags, command
from xscore.cli.settings_and_store import opened_store, read_settings
from xscore.extensions.shared.connect import shared_server_name
from xscore.extensions.shared.team.session_buffer import KEY_HINT, SessionBuffer, take_session
from xscore.platform.errors import UsageError
from xscore.platform.git_folder import origin_url, working_branch
from xscore.platform.repository_name import repository_name
from xscore.platform.text import counted, one_line


@command()
@click.option("--forget", is_flag=True, help="Delete what is kept on the server instead.")
def continue_session(forget: bool, flags: Flags) -> None:
    """Continue the session of your other machine on this branch: `ask --continue` goes on
    with it.

    It takes `shared.session_key` on both machines.
    """
    settings = read_settings(flags).settings.shared
    if not settings.keeps_sessions:
        raise UsageError("shared.session_key is not set", hint=KEY_HINT)
    buffer = SessionBuffer(settings)
    if forget:
        asyncio.run(buffer.forget())
        line = "your sessions were deleted from the server"
        flags.terminal.print_result({"forgotten": True}, line)
        return
    with opened_store(flags) as store:
        if not repository_name(origin_url(store.root.path)):
            raise UsageError(
                "this repository has no origin, by which other machines know it",
                hint="Sessions are kept by the name of the origin: `git remote add origin URL`.",
            )
        branch = working_branch(store.root.git_dir)
        exchanges, unreadable = asyncio.run(buffer.exchanges(now=store.clock()))
        taken = take_session(
            store, exchanges, branch=branch, server=shared_server_name(settings)
        )
    line = f"{counted(taken, 'exchange')} of branch {one_line(branch)} imported"
    if unreadable:
        skipped = counted(unreadable, "unreadable entry", "unreadable entries")
        flags.terminal.notes([f"skipped {skipped} on the server"])
    flags.terminal.print_result({"branch": branch, "taken": taken}, line)
