"""`xscore shared status | join | sync | checkpoint | leave | export | erase`: a repository's part
in a team.

Options, output and exit codes alone. Each opens only the store; `join` and `sync` wait for the
server, turns do not.
"""

import os
import time
from typing import TYPE_CHECKING

import click
from msgspec.structs import replace

from xscore.cli.flags import Flags, command
from xscore.cli.options import DRY_RUN
from xscore.cli.phrases import format_age
from xscore.cli.settings_and_store import opened_store, read_settings
from xscore.cli.text_layout import render_facts, render_table
from xscore.extensions.shared.team.address import memories_address
from xscore.extensions.shared.team.administration import TeamClient, TeamMember, TeamStatus
from xscore.extensions.shared.team.background_sync import FOR_NEXT_TURN
from xscore.extensions.shared.team.followed import synchronise_followed
from xscore.extensions.shared.team.incoming import remove_team_memories
from xscore.extensions.shared.team.membership import (
    COMMAND_S,
    Membership,
    note_failure,
    read_membership,
    write_membership,
)
from xscore.extensions.shared.team.sync import (
    TeamSync,
    required_membership,
    send_marked,
    synchronise,
    team_server_name,
)
from xscore.extensions.shared.team.team_key import team_key
from xscore.extensions.transfer.saved_files import Contents, encode_file
from xscore.platform import database
from xscore.platform.errors import UsageError, XscoreError
from xscore.platform.figures import format_bytes, format_seconds
from xscore.platform.git import git_user
from xscore.platform.git_folder import origin_url
from xscore.platform.paths import user_data_dir
from xscore.platform.repository_name import checked_name, repository_name
from xscore.platform.text import counted, one_line
from xscore.records.memory import MEMBER_CHARS
from xscore.settings.model import SharedSettings
from xscore.store.checkpoints import load_checkpoint, share_checkpoint, take_back_checkpoint
from xscore.store.composing import checked_line
from xscore.store.removal import note_team_server

if TYPE_CHECKING:
    from xscore.store.store import Store

_OFF = "shared.memories is off"
_TURN_ON = (
    "Set it to read or write in your own settings (XSCORE_SHARED_MEMORIES): see docs/shared.md."
)


def _sharing_settings(flags: Flags) -> SharedSettings:
    """Return the settings. Raises UsageError where nothing is shared."""
    settings = read_settings(flags).settings.shared
    if not settings.shares_memories:
        raise UsageError(_OFF, hint=_TURN_ON)
    return settings


def _client(store: "Store", settings: SharedSettings) -> TeamClient:
    address = memories_address(settings, timeout_s=COMMAND_S)
    return TeamClient(address, team_key(settings), required_membership(store))


@command()
@click.argument("name", required=False, default="")
@click.option(
    "--by",
    default="",
    metavar="NAME",
    help="Your name, as others see it; default: git's user.name.",
)
def join_team(name: str, by: str, flags: Flags) -> None:
    """Join this repository to your team, under NAME or the address that it was cloned from.

    With shared.memories = read, what others have stated about it comes here; with write, what you
    have stated goes there too. No other repository does, until you join it.
    """
    settings = _sharing_settings(flags)
    with opened_store(flags) as store:
        if name:
            repository = checked_name(name)
        else:
            repository = repository_name(origin_url(store.root.path))
        if not repository:
            raise UsageError(
                "this repository has no origin that others would know",
                hint="Name it as the team does: `xscore shared join github.com/acme/pay`.",
            )
        address = memories_address(settings)
        author = checked_line("name", by or git_user(store.root.path) or address.login)
        server = team_server_name(address, repository)
        before = read_membership(store.connection)
        _refuse_second_name(before, repository)
        joined = Membership(repository=repository, by=author)
        if before is not None:
            joined = replace(before, by=author or before.by)
        with database.transaction(store.connection):
            write_membership(store.connection, joined)
            note_team_server(store.connection, server)
        try:
            sync = synchronise(store, settings)
        except XscoreError:
            # After an error the repository must not count as joined.
            with database.transaction(store.connection):
                write_membership(store.connection, before)
            raise
    flags.terminal.print_result(sync, lambda done: f"joined {repository}; {_render_sync(done)}")


def _refuse_second_name(before: Membership | None, repository: str) -> None:
    """Refuse to join under another name: what is shared under the first could no longer be taken
    back, and what is erased there would stay here."""
    if before is not None and before.repository != repository:
        raise UsageError(
            f"this repository takes part as {before.repository} already",
            hint=(
                "If it was renamed, take back what you share there (`xscore shared erase`), then"
                " join again."
            ),
        )


@command()
@click.option(
    "--all", "everything", is_flag=True, help="Fetch everything again from the beginning."
)
def sync_team(everything: bool, flags: Flags) -> None:
    """Exchange memories with the team now, without a turn; take what is new of the repositories
    that are followed, too."""
    settings = _sharing_settings(flags)
    with opened_store(flags) as store:
        try:
            sync = synchronise(store, settings, everything=everything)
        except XscoreError as error:
            # A turn has started this process, and the next one says what went wrong.
            if FOR_NEXT_TURN in os.environ:
                note_failure(store, problem=error.message)
            raise
        folder = user_data_dir(store.user_data_dir)
    for followed in synchronise_followed(settings, user_data_dir=folder):
        if followed.problem:
            flags.terminal.note(f"{followed.repository}: {followed.problem}")
        elif followed.added or followed.changed or followed.removed:
            flags.terminal.note(f"{followed.repository}: {_render_sync(followed)}")
    flags.terminal.print_result(sync, _render_sync)


def _render_sync(sync: TeamSync) -> str:
    parts = [
        f"sent {sync.sent}",
        f"took back {sync.taken_back}" if sync.taken_back else "",
        f"new here {sync.added}",
        f"changed {sync.changed}" if sync.changed else "",
        f"removed {sync.removed}" if sync.removed else "",
        counted(sync.checkpoints, "checkpoint") if sync.checkpoints else "",
        f"kept forgotten {sync.forgotten}" if sync.forgotten else "",
        f"too long to send {sync.too_long}" if sync.too_long else "",
    ]
    parts += [f"skipped {count} {reason}" for reason, count in sync.skipped.items()]
    return f"{', '.join(filter(None, parts))} ({format_seconds(sync.took_s)})"


@command()
@click.argument("name")
@click.option("--take-back", is_flag=True, help="Erase it on the server; it stays here.")
def share_checkpoint_with_team(name: str, take_back: bool, flags: Flags) -> None:
    """Send checkpoint NAME to the team, whose members load it by that name."""
    settings = _sharing_settings(flags)
    # Before it is marked: the next exchange would send what this command refused.
    if settings.memories != "write":
        raise UsageError(
            "nothing is sent to the team: shared.memories is `read`",
            hint="Set it to write in your own settings (XSCORE_SHARED_MEMORIES).",
        )
    with opened_store(flags) as store:
        required_membership(store)
        checkpoint = load_checkpoint(store.connection, name)
        if take_back:
            with database.transaction(store.connection):
                take_back_checkpoint(store.connection, checkpoint.name)
        else:
            checkpoint = share_checkpoint(store.connection, name)
        send_marked(store, settings)
    verb = "took back" if take_back else "sent"
    body = {"name": checkpoint.name, "taken_back": take_back}
    flags.terminal.print_result(body, f"{verb} {one_line(checkpoint.name)}")


@command()
def leave_team(flags: Flags) -> None:
    """Take this repository out of the team, and remove others' memories from this store.

    What you shared stays on the server: `xscore shared erase` takes it back.
    """
    with opened_store(flags, make=False) as store:
        membership = required_membership(store)
        removed = remove_team_memories(store, now=store.clock())
        with database.transaction(store.connection):
            write_membership(store.connection, None)
    body = {"repository": membership.repository, "removed": removed}
    memories = counted(removed, "memory of others", "memories of others")
    flags.terminal.print_result(body, f"left {membership.repository}; removed {memories}")


@command()
def show_team(flags: Flags) -> None:
    """Show who shares what of this repository: members, memories, lag, size, growth."""
    settings = read_settings(flags).settings.shared
    if not settings.shares_memories:
        flags.terminal.print_result(
            {"memories": settings.memories}, "", none=f"{_OFF}. {_TURN_ON}"
        )
        return
    with opened_store(flags, make=False) as store:
        status = _client(store, settings).status(time.time)
    flags.terminal.print_result(status, _render_status)


def _render_status(status: TeamStatus) -> str:
    counts = status.counts
    growth = (
        f"{counted(counts.memories_of_30_days, 'entry', 'entries')},"
        f" {format_bytes(counts.bytes_of_30_days)} in 30 days"
    )
    facts = [
        ("server", f"{status.server} (answered in {status.round_trip_s * 1_000:,.0f} ms)"),
        ("team", one_line(status.organisation)),
        ("repository", one_line(status.repository)),
        ("memories", f"{counts.memories:,}, {counts.erased:,} erased"),
        ("checkpoints", f"{counts.checkpoints:,}" if counts.checkpoints else ""),
        ("size", format_bytes(counts.bytes)),
        ("growth", growth),
        ("this store", _lag(status.behind)),
    ]
    rows = [_member_row(member) for member in status.members]
    table = render_table(("member", "shares", "lag", "last seen"), rows)
    return "\n\n".join(filter(None, [render_facts(facts), table]))


def _member_row(member: TeamMember) -> tuple[str, ...]:
    name = f"{one_line(member.by) or 'unknown'} ({member.member[:MEMBER_CHARS]})"
    if member.is_you:
        name += ", you"
    age = format_age(member.seen_at, time.time())
    return name, f"{member.shares:,}", _lag(member.behind), age


def _lag(behind: int) -> str:
    if behind:
        return f"{behind:,} behind"
    return "up to date"


@command()
def export_team(flags: Flags) -> None:
    """Write every memory that the team shares of this repository as lines of JSON, on stdout.

    `xscore memory import` reads them.
    """
    settings = _sharing_settings(flags)
    with opened_store(flags, make=False) as store:
        export = _client(store, settings).export()
    if export.skipped:
        flags.terminal.note(
            f"skipped {counted(export.skipped, 'entry', 'entries')}: unreadable"
        )
    flags.terminal.data(encode_file(Contents.MEMORIES, export.memories).decode(), is_json=True)


@command(DRY_RUN)
def erase_shared_memories(flags: Flags) -> None:
    """Erase all that you share of this repository from the server, whichever machine sent it.

    Your own stores keep it. The repository leaves the team, and others' memories are removed from
    this store. Others' copies are removed by their next turn.
    """
    settings = _sharing_settings(flags)
    with opened_store(flags, make=False) as store:
        client = _client(store, settings)
        count = client.ask(lambda server, _: len(server.own_digests()))
        if not flags.dry_run:
            client.erase_all()
            remaining = client.ask(lambda server, _: len(server.own_digests()))
            remove_team_memories(store, now=store.clock())
            with database.transaction(store.connection):
                write_membership(store.connection, None)
    if flags.dry_run:
        body: dict[str, object] = {"erased": count, "left": count, "dry_run": True}
        flags.terminal.print_result(body, f"would erase {counted(count, 'entry', 'entries')}")
        return
    body = {"erased": count, "left": remaining, "dry_run": False}
    flags.terminal.print_result(
        body, f"erased {counted(count, 'entry', 'entries')}; {remaining:,} left on the server"
    )
