"""`xscore view`: serve the pages of this repository on this machine, until they are left alone.

It prints the link, and ends by Ctrl-C or after a while without a request. Trade-off: the link is a
key; `--open` hands it to the browser through a file that only its user can read, since a command
line can be read by everyone on the machine.
"""

import os
import tempfile
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager
from html import escape
from pathlib import Path

import click

from xscore.cli.flags import Flags, command
from xscore.cli.options import period_s
from xscore.cli.settings_and_store import read_settings
from xscore.extensions.view.guard import ServerAddress
from xscore.extensions.view.routes import answer_request
from xscore.extensions.view.server import PageServer
from xscore.extensions.view.site import Site
from xscore.platform.errors import UsageError
from xscore.platform.figures import format_seconds
from xscore.platform.paths import find_root
from xscore.settings import LoadedSettings

IDLE = "30m"
LARGEST_PORT = 65_535


@command()
@click.option("--edit", is_flag=True, help="Let pages stop turns and review memories.")
@click.option("--open", "opens", is_flag=True, help="Open the browser.")
@click.option(
    "--idle",
    metavar="TIME",
    type=period_s,
    default=IDLE,
    show_default=True,
    help="End after this long without a request: 90s, 30m, 8h.",
)
@click.option(
    "--port",
    metavar="N",
    type=click.IntRange(0, LARGEST_PORT),
    default=0,
    help="The port on 127.0.0.1; default: a free one.",
)
def view(*, edit: bool, opens: bool, idle: float, port: int, flags: Flags) -> None:
    """Look at all turns in a browser: search questions and answers, compare two turns, watch one
    that runs, review memories.

    It prints a link that holds a key and works on this machine alone. Without --edit nothing can be
    changed. Ctrl-C ends it.
    """
    loaded = read_settings(flags)
    flags.terminal.notes(loaded.warnings)
    with _opened_server(port, idle, flags) as server:
        site = make_site(flags, loaded, server.address, may_edit=edit)
        link = server.address.link
        flags.terminal.print_result({"url": link, "edit": edit}, link)
        with _opened_browser(link, opens=opens):
            flags.terminal.note("Ctrl-C ends it")
            try:
                server.serve(lambda request: answer_request(site, request))
                flags.terminal.note(f"ended: no request for {format_seconds(idle)}")
            except KeyboardInterrupt:
                flags.terminal.note("ended")


def make_site(
    flags: Flags,
    loaded: LoadedSettings,
    address: ServerAddress,
    *,
    may_edit: bool,
    folder: Path = Path(),
) -> Site:
    """Return the pages of the repository around a folder, as they are served at this address."""
    return Site(
        flags=flags,
        folder=folder.resolve(),
        loaded=loaded,
        repository=find_root(folder.resolve()).path.name,
        root=f"/{address.token}/",
        may_edit=may_edit,
    )


@contextmanager
def _opened_server(port: int, idle_s: float, flags: Flags) -> Iterator[PageServer]:
    try:
        server = PageServer(port=port, idle_s=idle_s, on_failure=flags.terminal.note)
    except OSError as error:
        raise UsageError(
            f"port {port} of 127.0.0.1 cannot be used: {error.strerror}",
            hint="Leave --port out to take a free one.",
        ) from error
    with server:
        yield server


@contextmanager
def _opened_browser(link: str, *, opens: bool) -> Iterator[None]:
    """Open the browser at a file that leads to the link; the file is removed at the end."""
    if not opens:
        yield
        return
    descriptor, name = tempfile.mkstemp(prefix="xscore-view-", suffix=".html")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(
                '<!doctype html><meta charset="utf-8"><title>xscore</title>'
                f'<meta http-equiv="refresh" content="0; url={escape(link)}">'
            )
        webbrowser.open(Path(name).as_uri())
        yield
    finally:
        Path(name).unlink(missing_ok=True)
