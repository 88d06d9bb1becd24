"""`xscore hook`: what coding agents run before a prompt, at the start and end of a session, and after an edit.

It always exits with 0 and in time: an agent treats other codes as a veto, or discards the output. A failure is stored
for `xscore status`. Trade-off: a problem with a hook is shown there, not in the agent.
"""

import time
from pathlib import Path

import click
from msgspec import Struct, field

from xscore.cli.failures import error_of
from xscore.cli.main import STARTED_AT
from xscore.cli.opening import read_settings
from xscore.cli.options import Flags, command
from xscore.extensions.agents.hook_events import EVENTS, HookCall
from xscore.extensions.agents.hook_guard import GRACE_S, AgentStreams, Watchdog
from xscore.extensions.agents.hook_protocols import CLIENTS, addition, read_input, read_message, session_thread
from xscore.platform.errors import UsageError
from xscore.platform.paths import find_root, user_data_dir
from xscore.settings import AgentSettings
from xscore.store.hook_state import describe_failure, hook_state_file, note_end


@command()
@click.argument("event", metavar="|".join(EVENTS))
@click.option("--client", type=click.Choice(CLIENTS), help="The agent; default: detected from its JSON.")
def hook(*, event: str, client: str | None, flags: Flags) -> int:
    """Answer a coding agent's hook: read its JSON from standard input, write ours to standard output. Agents run this.

    prompt: add what is relevant. session-start: say what was worked on. stop: remember the exchange. post-edit: update
    the memories of the edited file. The exit code is always 0.
    """
    run = _HookRun(event, client or "", flags)
    error = error_of(run.answer)
    run.watchdog.stop()
    if error is not None:
        run.fail(error)
    run.streams.answer(run.nothing())
    return 0


class _HookRun(Struct):
    """One run of a hook, with what is known so far: the watchdog may have to end it at any point."""

    event: str
    client: str
    flags: Flags
    streams: AgentStreams = field(default_factory=AgentStreams)
    watchdog: Watchdog = field(default=None)  # type: ignore[assignment]  # set in __post_init__, since it calls back into this run
    state_file: Path | None = None
    call: HookCall | None = None

    def __post_init__(self) -> None:
        until = STARTED_AT + AgentSettings().hook_deadline_s + GRACE_S
        self.watchdog = Watchdog(until, last_words=self._end_in_time, record=self._record_lateness)

    def answer(self) -> None:
        """Read the message, run the event, and write what it adds."""
        self.state_file = hook_state_file(find_root(Path()), user_data_dir(None))
        work = EVENTS.get(self.event)
        if work is None:
            raise UsageError(f"there is no hook `{self.event}`", hint=f"There are {', '.join(EVENTS)}.")
        message = read_message(read_input())
        self.client = self.client or message.client
        root = find_root(Path(message.folder))
        self.state_file = hook_state_file(root, user_data_dir(None))
        loaded = read_settings(self.flags, start=root.path)
        own = loaded.settings
        self.state_file = hook_state_file(root, user_data_dir(own.store.user_data_dir))
        self.watchdog.until = STARTED_AT + own.agents.hook_deadline_s + GRACE_S
        thread = session_thread(message, self.client)
        self.call = HookCall(message, self.client, thread, root, loaded, self.state_file, self._add)
        problem = work(self.call)
        self.streams.answer(self.nothing())
        failure = describe_failure(self.event, problem, at=time.time()) if problem else None
        note_end(self.state_file, failure=failure, session=thread, text=self.call.said)

    def fail(self, error: BaseException) -> None:
        """Print one line on what went wrong, and store it for `xscore status`."""
        self.streams.answer(self.nothing())
        if isinstance(error, KeyboardInterrupt):  # the agent cancelled the hook
            return
        self._write_failure(error)
        self.streams.complain(f"hook {self.event}: {getattr(error, 'message', '') or type(error).__name__}")

    def nothing(self) -> bytes:
        """Return the output that adds nothing."""
        return b"{}\n" if self.client == "gemini" else b""

    def _add(self, text: str) -> None:
        assert self.call is not None
        self.streams.answer(addition(text, event=self.event, client=self.client, message=self.call.message))

    def _end_in_time(self) -> None:
        if self.call is not None and self.call.notice:
            self._add(self.call.notice)
        else:
            self.streams.answer(self.nothing())

    def _record_lateness(self) -> None:
        if self.call is None or not self.call.notice:
            self._write_failure("it took too long, so nothing was added")

    def _write_failure(self, error: BaseException | str) -> None:
        if self.state_file is not None:
            note_end(self.state_file, failure=describe_failure(self.event, error, at=time.time()))
