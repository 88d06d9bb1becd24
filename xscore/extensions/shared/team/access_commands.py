"""`xscore shared follow | access`: which repositories of the team are read without a clone, and who
may read one."""

import click

from xscore.cli.flags import Flags, command
from xscore.cli.settings_and_store import read_settings
from xscore.extensions.shared.team.access import AccessChange, RepositoryAccess, change_access
from xscore.extensions.shared.team.address import admin_address, memories_address
from xscore.extensions.shared.team.followed import follow, followed_names, unfollow
from xscore.extensions.shared.team.server_sync import project_digest
from xscore.extensions.shared.team.team_key import team_key
from xscore.platform.errors import UsageError
from xscore.platform.paths import user_data_dir
from xscore.platform.repository_name import checked_name
from xscore.platform.text import counted, one_line


@command()
@click.argument("name", required=False, default="")
@click.option("--end", is_flag=True, help="Stop following NAME and remove what came from it.")
def follow_repository(name: str, *, end: bool, flags: Flags) -> None:
    """Get what the team states about repository NAME, which is not cloned here.

    `ask --repo NAME` then judges it; `xscore shared sync` pulls what is new. Without NAME, list
    those that are followed.
    """
    settings = read_settings(flags).settings
    folder = user_data_dir(settings.store.user_data_dir)
    if not name:
        names = followed_names(folder)
        none = "no repository is followed"
        flags.terminal.print_result({"followed": names}, "\n".join(names), none=none)
        return
    repository = checked_name(name)
    if end:
        unfollow(repository, user_data_dir=folder)
        flags.terminal.print_result(
            {"ended": repository}, f"{repository} is no longer followed"
        )
        return
    if not settings.shared.shares_memories:
        raise UsageError(
            "shared.memories is off", hint="Set it to read or write in your own settings."
        )
    login = memories_address(settings.shared).login
    sync = follow(repository, login, settings.shared, user_data_dir=folder)
    memories = counted(sync.added, "memory", "memories")
    flags.terminal.print_result(sync, f"following {repository}: {memories} pulled")


@command()
@click.argument("name")
@click.option(
    "--close/--open",
    "is_closed",
    default=None,
    help="Restrict reading to granted logins, or open it to all.",
)
@click.option(
    "--grant",
    "granted",
    metavar="LOGIN",
    multiple=True,
    help="A login that may read it. Repeatable.",
)
@click.option(
    "--revoke",
    "revoked",
    metavar="LOGIN",
    multiple=True,
    help="A login that may no longer read it. Repeatable.",
)
def change_repository_access(
    name: str,
    *,
    is_closed: bool | None,
    granted: tuple[str, ...],
    revoked: tuple[str, ...],
    flags: Flags,
) -> None:
    """Show or change who in the team may read what it states about repository NAME.

    It is an administrator's command (shared.admin_url) and needs the team's key. A repository is
    open to the whole team until it is closed; then only logins that were granted access can read
    and write it. Members keep what they have already pulled.
    """
    settings = read_settings(flags).settings.shared
    address = admin_address(settings, needed_by="shared access")
    repository = checked_name(name)
    change = AccessChange(
        organisation=settings.tenant,
        project=project_digest(team_key(settings), repository),
        is_closed=is_closed,
        granted=granted,
        revoked=revoked,
    )
    access = change_access(address, change)
    flags.terminal.print_result(access, _described(repository, access))


def _described(repository: str, access: RepositoryAccess) -> str:
    if not access.is_closed:
        return f"{repository}: open to the whole team"
    if not access.logins:
        return f"{repository}: closed to everyone"
    return f"{repository}: closed except to {', '.join(map(one_line, access.logins))}"
