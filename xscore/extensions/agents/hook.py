"""`xscore hook` as a command: its arguments and their help. What it does is `hook_run`'s."""

import click

from xscore.cli.flags import Flags, command
from xscore.extensions.agents.hook_events import EVENTS
from xscore.extensions.agents.hook_run import answer_hook
from xscore.extensions.agents.tool_call import AFTER, BEFORE, CLIENTS
from xscore.extensions.agents.tool_gate import answer_tool_hook_or_return_failure


@command()
@click.argument("event", metavar="|".join([*EVENTS, BEFORE]))
@click.option(
    "--client", type=click.Choice(CLIENTS), help="The agent; default: detected from its JSON."
)
def hook(*, event: str, client: str | None, flags: Flags) -> int:
    """Answer a coding agent's hook: read its JSON from standard input, write ours to standard
    output. Agents run this.

    prompt: add what is relevant. session-start, subagent-start: add what was worked on.
    pre-compact, stop: remember the exchange. session-end: look for facts in the session.
    post-edit: update the memories of the edited file. pre-tool: stop, once, a call that failed
    before. post-tool, tool-failed: note what failed and what helped. The exit code is always 0.
    """
    data = b""
    if client and event in (BEFORE, AFTER):
        data = answer_tool_hook_or_return_failure(event, client)
    return answer_hook(event, client or "", flags.overrides, flags.names, data=data)
