"""`xscore shared init | prune | key`: what an administrator of a team runs once.

`init` prints SQL to read, or runs it with an administrator's URL. It never sees a member's password
and stores nothing here.
"""

import secrets

import click

from xscore.cli.flags import Flags, command
from xscore.cli.options import DRY_RUN
from xscore.cli.settings_and_store import read_settings
from xscore.extensions.shared.team.address import admin_address
from xscore.extensions.shared.team.retention import remove_unused
from xscore.extensions.shared.team.setup import apply_setup, setup_sql
from xscore.extensions.transfer.transfer_keys import KEY_BYTES
from xscore.platform.errors import UsageError
from xscore.platform.text import counted

_APPLY_HINT = (
    "Set XSCORE_SHARED_ADMIN_URL for this command, or run the SQL that --print shows by hand."
)
_KEY_NOTE = (
    "Give it to each member of the team, and to nobody else, but not through the server:"
    " XSCORE_SHARED_KEY, or a file named by shared.key_file."
)


@command()
@click.option(
    "--login", "logins", metavar="NAME", multiple=True, help="A member's login. Repeatable."
)
@click.option("--database", default="", metavar="NAME", help="The database, for --print.")
@click.option(
    "--print", "prints", is_flag=True, help="Print the SQL, to be read and run by hand."
)
@click.option("--apply", "applies", is_flag=True, help="Run it through shared.admin_url.")
@click.option(
    "--judgments", is_flag=True, help="Keep the judgments of several teams apart there, too."
)
def init_team(
    logins: tuple[str, ...],
    database: str,
    *,
    prints: bool,
    applies: bool,
    judgments: bool,
    flags: Flags,
) -> None:
    """Prepare a PostgreSQL for the team named by shared.tenant: roles, tables, logins.

    Running it again adds logins, and brings the tables to this version.
    """
    settings = read_settings(flags).settings.shared
    if prints == applies:
        raise UsageError("choose either --print or --apply", hint="--print only shows the SQL.")
    if prints:
        name = database or "team"
        script = setup_sql(settings.tenant, logins, database=name, with_judgments=judgments)
        flags.terminal.data(f"BEGIN;\n{script}\nCOMMIT;")
        return
    address = admin_address(settings, needed_by="--apply", hint=_APPLY_HINT)
    version = apply_setup(address, settings.tenant, logins, with_judgments=judgments)
    body = {"server": address.name, "version": version, "logins": list(logins)}
    added = counted(len(logins), "login")
    flags.terminal.print_result(
        body, f"{address.name}: schema {version}, {added} of {settings.tenant}"
    )


@command(DRY_RUN)
@click.option(
    "--unused-days",
    metavar="N",
    type=click.IntRange(1, 36_500),
    required=True,
    help="Remove judgments of turns that have gained none for N days.",
)
def prune_team(unused_days: int, flags: Flags) -> None:
    """Remove judgments of the team that have long been unused, and marks of erased memories that
    every member seen in the last N days has noticed.

    It is an administrator's command (shared.admin_url), for PostgreSQL. What members have stated is
    never removed by it. Each removal is noted in the table xscore.removal, or in
    xscore_team.removal where there are no judgments.
    """
    settings = read_settings(flags).settings.shared
    address = admin_address(settings, needed_by="shared prune")
    removal = remove_unused(
        address, settings.tenant, unused_days=unused_days, dry_run=flags.dry_run
    )
    verb = "would remove" if removal.dry_run else "removed"
    judgments = counted(removal.judgments, "judgment")
    turns = counted(removal.turns, "turn")
    marks = counted(removal.marks, "mark of an erased memory", "marks of erased memories")
    flags.terminal.print_result(removal, f"{verb} {judgments} of {turns}, and {marks}")
    if not removal.had_dates:
        begins = (
            "a run without --dry-run begins to note it" if removal.dry_run else "it does now"
        )
        flags.terminal.note(f"the server did not note when judgments are used: {begins}")


@command()
def print_team_key(flags: Flags) -> None:
    """Print a new key for a team's memories."""
    key = secrets.token_bytes(KEY_BYTES).hex()
    flags.terminal.print_result({"key": key}, key)
    flags.terminal.note(_KEY_NOTE)
