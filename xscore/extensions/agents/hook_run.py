"""One run of `xscore hook`: what coding agents run before a prompt, at the start and end of a
session, of a sub-agent and of a compaction, after an edit.

It always exits with 0 and in time: an agent treats other codes as a veto, or discards the output.
The agent's streams are set aside, so only the answer reaches standard output, whatever a library
prints. A thread ends the process when its time is up, even while the main thread waits for a disk,
a lock or the agent. A failure is stored for `xscore status`. Trade-offs: a problem with a hook is
shown there, not in the agent; an end in time is like `kill -9`: the store survives it, but a model
call that is still running is paid for and lost.
"""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Event, Lock, Thread

from msgspec import Struct, field

from xscore.cli.settings_and_store import read_overridden
from xscore.cli.start import STARTED_AT, run_and_report, run_process
from xscore.extensions.agents.hook_call import HookCall
from xscore.extensions.agents.hook_events import EVENTS, event_function
from xscore.extensions.agents.hook_protocols import (
    addition,
    read_input,
    read_message,
    thread_name,
)
from xscore.extensions.agents.tool_call import BEFORE, CLIENTS
from xscore.platform.database import has_older_header
from xscore.platform.errors import StoreUntrusted, UsageError, find_xscore_error
from xscore.platform.git import kill_git
from xscore.platform.paths import RepositoryRoot, find_root, user_data_dir
from xscore.platform.text import escape_controls, one_line
from xscore.settings import AgentSettings
from xscore.store import opening
from xscore.store.hook_state import describe_failure, hook_state_file, may_advise, note_end
from xscore.store.redaction import redact

GRACE_S = 0.7
"""Seconds from the deadline to the forced end: a turn that reaches its deadline still has to rank
and render."""
LATEST_S = 8.0
"""Seconds after which the hook ends however busy the machine is. Agents wait 10 s, the start of
Python included."""
RECORDING_S = 0.2
"""How long to wait for a failure to be stored, in seconds."""
_LINE_CHARS = 200
_ADVISED = ("prompt", "session-start")
"""Events whose answer reaches the agent."""
# The commands are for the user: who plants a store can also plant a text that talks the agent into
# trusting it.
REFUSED = (
    "xscore adds nothing here: the store of this repository was not made at this place; the folder"
    " was moved or renamed, or the store came with a copy. Tell the user, who decides in a terminal"
    " and not you: `xscore store trust` keeps it, `xscore store rebuild` makes a new one."
)


def end_if_installed(arguments: Sequence[str], message: bytes = b"") -> None:
    """Answer a hook and end the process, if the arguments are those that `xscore agent install`
    writes. message: what the agent wrote, if that is read already.

    They are compared, not parsed: everything else, and every error in them, is the command line's.
    So the many runs before prompts load no click, which takes as long as reading a pool of 5,000
    memories.
    """
    match arguments:
        case ["hook", event, "--client", client] if event in EVENTS and client in CLIENTS:
            pass
        case ["hook", event] if event in EVENTS:
            client = ""
        case _:
            return
    run_process(
        lambda: run_and_report(lambda: answer_hook(event, client, data=message), arguments),
        is_hook=True,
    )


def answer_hook(
    event: str,
    client: str,
    overrides: Mapping[str, object] | None = None,
    names: Mapping[str, str] | None = None,
    *,
    data: bytes = b"",
) -> int:
    """Run a hook, whatever happens in it; return the exit code. overrides and names: those of
    the command's flags. data: the agent's message; empty if it is read here."""
    run = _HookRun(event, client, overrides or {}, names or {}, data)
    error = _error_of(run.answer)
    run.watchdog.stop()
    run.answer_with(run.advice(error))
    if error is not None:
        run.fail(error)
    return 0


def _error_of(work: Callable[[], object]) -> BaseException | None:
    """Run work whose caller has to go on, whatever happens; return what it raised."""
    try:
        work()
    # The edge of a hook: nothing may stop the agent that runs it.
    except BaseException as error:
        return error
    return None


def _find_agents_root(folder: str) -> RepositoryRoot:
    place = Path(folder)
    try:
        with suppress(FileNotFoundError):  # a folder that is gone is its own root
            place.stat()
        return find_root(place)
    except (OSError, ValueError) as error:  # a NUL, or too many characters
        why = getattr(error, "strerror", None) or error
        raise UsageError(
            f"the agent's folder {folder[:40]!r} ({len(folder):,} characters) is not a path: {why}",
            hint="Start the agent in a folder that exists.",
        ) from error


class AgentStreams:
    """The agent's standard output and error; once this is created, nothing else in the process can
    write to them."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._answered = False
        self._out, self._err = os.dup(1), os.dup(2)
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for number in (1, 2):
            os.dup2(nowhere, number)

    def answer(self, data: bytes) -> None:
        """Write the answer; ignore any later one."""
        with self._lock:
            if not self._answered:
                self._answered = True
                _write(self._out, data)

    def complain(self, message: str) -> None:
        """Write one short line for the user to standard error."""
        line = one_line(escape_controls(redact(message).text))[:_LINE_CHARS]
        _write(self._err, f"xscore: {line}\n".encode("utf-8", "replace"))


def _write(descriptor: int, data: bytes) -> None:
    with suppress(OSError):  # the agent has gone, or a disk is full
        while data:
            data = data[os.write(descriptor, data) :]


class Watchdog:
    """Ends the process with exit code 0 when its time is up."""

    def __init__(self, until: float, last_words: Callable[[], None]) -> None:
        """until: `time.monotonic` seconds.
        last_words: writes the answer and stores why; abandoned if it hangs.
        """
        self.until = until
        """When time runs out; may change while the thread waits."""
        self._last_words = last_words
        self._over = Event()
        Thread(target=self._wait, daemon=True).start()

    def stop(self) -> None:
        """Stop watching; the process may go on."""
        self._over.set()

    def _wait(self) -> None:
        while (left_s := self.until - time.monotonic()) > 0:
            if self._over.wait(min(left_s, 0.5)):
                return
        # An agent may not read, or a disk may hang.
        ending = Thread(target=self._last_words, daemon=True)
        ending.start()
        ending.join(RECORDING_S)
        kill_git()
        os._exit(0)


class _HookRun(Struct):
    """One run of a hook, with what is known so far: the watchdog may have to end it at any
    point."""

    event: str
    client: str
    overrides: Mapping[str, object] = {}
    """See `Flags.overrides`."""
    names: Mapping[str, str] = {}
    """See `Flags.names`."""
    data: bytes = b""
    streams: AgentStreams = field(default_factory=AgentStreams)
    watchdog: Watchdog = field(default=None)  # type: ignore[assignment]  # set in __post_init__, since it needs this run
    state_file: Path | None = None
    call: HookCall | None = None
    slowness: float = 1.0
    """Ratio of the elapsed time of the start to its CPU time."""

    def __post_init__(self) -> None:
        self.watchdog = Watchdog(self._must_end_at(AgentSettings()), self._end_in_time)

    def answer(self) -> None:
        """Read the message, run the event, and write what it adds."""
        root = find_root(Path())
        # Set as soon as it can be guessed, and again when more is known: the watchdog may need it
        # at any point.
        self.state_file = hook_state_file(root, user_data_dir(None))
        self._check_event()
        asked_at = time.monotonic()
        self.data = self.data or read_input()
        message = read_message(self.data)
        idle_s = time.monotonic() - asked_at
        self.client = self.client or message.client
        # Nearly all agents run a hook in the folder that they name.
        if message.folder != str(Path.cwd()):
            root = _find_agents_root(message.folder)
        self.state_file = hook_state_file(root, user_data_dir(None))
        loaded = read_overridden(root.path, self.overrides, self.names)
        settings = loaded.settings
        self.state_file = hook_state_file(root, user_data_dir(settings.store.user_data_dir))
        self.watchdog.until = self._must_end_at(settings.agents, idle_s=idle_s)
        session = message.session_id or message.conversation_id
        thread = ""
        if session:
            thread = thread_name(self.client, session)
        self.call = HookCall(
            message,
            self.client,
            thread,
            root,
            loaded,
            self.state_file,
            self.data,
            self.answer_with,
        )
        if has_older_header(root.store_file, opening.SCHEMA):
            # first: if time runs out during the migration, it is finished there.
            self.call.wake()
        problem = event_function(self.event)(self.call)
        # Answer now, even with nothing; later answers are ignored.
        self.answer_with("")
        failure = None
        if problem:
            failure = describe_failure(self.event, problem, at=time.time())
        note_end(
            self.state_file,
            failure=failure,
            session=thread,
            texts=self.call.added_texts,
            brief=self.call.brief,
        )

    def _check_event(self) -> None:
        """Raise UsageError for an event that is not answered here."""
        if self.event == BEFORE:
            # With --client, the gate has already answered; without it we do not know the agent's
            # form of a denial.
            raise UsageError(
                f"`hook {BEFORE}` needs --client", hint=f"Add --client {'|'.join(CLIENTS)}."
            )
        if self.event not in EVENTS:
            raise UsageError(
                f"there is no hook `{self.event}`", hint=f"There are {', '.join(EVENTS)}."
            )

    def advice(self, error: BaseException | None) -> str:
        """Return what to tell the agent about a store that is refused, once a day; empty for any
        other error."""
        if error is None or self.event not in _ADVISED or self.state_file is None:
            return ""
        is_refused = isinstance(find_xscore_error(error), StoreUntrusted)
        if is_refused and may_advise(self.state_file, now=time.time()):
            return REFUSED
        return ""

    def fail(self, error: BaseException) -> None:
        """Print one line on what went wrong, and store it for `xscore status`."""
        if isinstance(error, KeyboardInterrupt):  # the agent cancelled the hook
            return
        self._write_failure(error)
        why = getattr(error, "message", "") or type(error).__name__
        if isinstance(error, EOFError):
            # `marshal` says no more about half a compiled file, which a full disk leaves.
            why = (
                "a compiled file of Python is damaged; remove the __pycache__ folders of xscore"
            )
        self.streams.complain(f"hook {self.event}: {why}")

    def _must_end_at(self, agents: AgentSettings, *, idle_s: float = 0.0) -> float:
        # On a busy machine ranking takes longer, too: the grace grows as much as the start took
        # longer.
        slowness = (time.monotonic() - STARTED_AT - idle_s) / time.process_time()
        self.slowness = max(self.slowness, slowness)
        latest = max(LATEST_S, agents.hook_deadline_s + GRACE_S)
        return STARTED_AT + min(latest, agents.hook_deadline_s + GRACE_S * self.slowness)

    def answer_with(self, text: str) -> None:
        """Answer with a text that joins the agent's context; later answers are ignored.

        An empty one adds nothing.
        """
        self.streams.answer(addition(text, event=self.event, client=self.client))

    def _end_in_time(self) -> None:
        notice = self.call.notice if self.call else ""
        self.answer_with(notice)
        if not notice:
            self._write_failure("it took too long, so nothing was added")

    def _write_failure(self, error: BaseException | str) -> None:
        if self.state_file is not None:
            note_end(
                self.state_file, failure=describe_failure(self.event, error, at=time.time())
            )
