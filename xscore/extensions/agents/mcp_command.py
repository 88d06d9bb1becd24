"""The command `xscore mcp`; needs the extra `mcp`, the official SDK.

It loads the SDK only when it serves, so that `--help` and a missing extra need none. Trade-off:
the SDK takes half a second of CPU to start.
"""

import asyncio
import signal
import sys

import click

from xscore.cli.flags import Flags, command
from xscore.cli.options import JUDGE, MAX_USD, SELECTION
from xscore.extensions.agents.background import wake_background
from xscore.extensions.agents.mcp_stdio import ClientPipes, claim_standard_streams
from xscore.extensions.agents.mcp_workplace import Workplace, find_workplace
from xscore.platform.extras import require_extra
from xscore.store.opening import has_store


@command(JUDGE, SELECTION, MAX_USD)
@click.option(
    "--tools",
    type=click.Choice(["context", "all"]),
    default="context",
    show_default=True,
    help="Which tools to offer.",
)
@click.argument("folder", default="", type=click.Path())
def mcp(tools: str, folder: str, flags: Flags) -> None:
    """Serve this repository, or the one of FOLDER, to an agent over standard input and output
    (MCP); needs `xscore[mcp]`.

    It offers one tool, `context`; `--tools all` adds `explain` and `remember`. Your agent starts
    this command itself.
    """
    require_extra("mcp", "mcp", purpose="`xscore mcp`")
    if sys.stdin.isatty():
        flags.terminal.note(
            "an agent starts this and speaks MCP with it; `xscore agent install` sets it up"
        )
    place = find_workplace(flags, folder)
    pipes = claim_standard_streams()
    if has_store(place.root.store_dir):  # the index is up to date before the first call
        wake_background(place.root)
    try:
        asyncio.run(_serve_until_sigterm(place, pipes, everything=tools == "all"))
    except asyncio.CancelledError as error:
        raise KeyboardInterrupt from error


async def _serve_until_sigterm(
    place: Workplace, pipes: ClientPipes, *, everything: bool
) -> None:
    from xscore.extensions.agents.mcp_server import McpServer  # an extra; --help needs none

    task = asyncio.current_task()
    assert task is not None
    # Cancelled like this, calls in flight end in order and what was paid for is kept.
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    await McpServer(place, everything=everything).serve(pipes)
