"""`xscore mcp`: serve one repository to one client over standard input and output, in either era of
the protocol.

One thread reads, answers simple requests, and does all the writing; worker threads (lanes) run the
calls. When too many calls run, it stops reading until some have ended. It ends within `CLOSING_S`
at the end of input, when the client is gone, or on SIGTERM; what was paid for is then in the store.
Trade-off: a batch of requests in one line, which one old version allowed, is refused, as the
official SDKs do.
"""

import sys
from collections.abc import Callable, Mapping
from time import monotonic
from typing import Any

import click
from msgspec.structs import replace

from xscore.cli.options import JUDGE, MAX_USD, SELECTION, Flags, command
from xscore.extensions.agents.background import wake_background
from xscore.extensions.agents.mcp_calls import (
    JUDGING,
    Call,
    CallLanes,
    CallOutcome,
    TaskRecord,
    TaskTable,
)
from xscore.extensions.agents.mcp_context import Workplace, find_workplace
from xscore.extensions.agents.mcp_protocol import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    MISSING_CAPABILITY,
    MODERN_VERSION,
    RESOURCE_NOT_FOUND,
    TASKS_EXTENSION,
    TASKS_VERSION,
    Envelope,
    Message,
    Refusal,
    RequestId,
    cacheable,
    negotiate,
    read_envelope,
    read_message,
    refuse,
    response,
)
from xscore.extensions.agents.mcp_stdio import (
    MOST_LINE_BYTES,
    RENEW_AFTER_S,
    TOO_LONG,
    ServerState,
    StdioWire,
    can_renew,
    has_children,
    renew,
    take_state,
)
from xscore.extensions.agents.mcp_tools import (
    SERVER_INSTRUCTIONS,
    TEMPLATE,
    failure_result,
    offered_tools,
    read_receipt_resource,
)
from xscore.platform.errors import NothingMatched, UsageError, XscoreError
from xscore.platform.text import join_sentences
from xscore.store.opening import has_store

MOST_CALLS = 32
"""Calls that run or wait; more input is read only when one has ended."""
TASK_AFTER_S = 8.0
"""After this long, a client that accepts tasks gets one in place of the result."""
CLOSING_S = 1.5
"""Time for calls to end at shutdown; official clients kill a server after 2 s."""

Result = Mapping[str, Any] | Refusal | None
"""None: the answer comes later, or never."""
Method = Callable[[Message, Envelope], Result]


class McpServer:
    """Serves one client until it leaves."""

    def __init__(
        self,
        wire: StdioWire,
        place: Workplace,
        *,
        everything: bool,
        handshake: Envelope | None = None,
    ) -> None:
        """everything: offer all tools, not just `context`. handshake: the one from before a
        renewal."""
        from importlib.metadata import version

        self.renews = False  # true only where the process is the server's own
        self._wire, self._place = wire, place
        self._tools = offered_tools(everything=everything)
        self._lanes = CallLanes(wire.wake)
        self._handshake = handshake
        self._calls: dict[RequestId, Call] = {}
        """Requests not answered yet."""
        self._at_work: set[Call] = set()
        """Calls that have not ended, including cancelled ones and those of tasks."""
        self._idle_since: float | None = None
        """When the latest call ended; None: there is no memory to free."""
        self._tasks = TaskTable()
        self._awaiting: dict[RequestId, tuple[TaskRecord, Envelope]] = {}
        """Requests that get their answer when a task ends."""
        self._server = {"name": "xscore", "title": "xscore", "version": version("xscore")}
        self._methods: dict[str, Method] = {
            "initialize": self._initialize,
            "ping": lambda _message, _envelope: {},
            "server/discover": self._discover,
            "tools/list": self._list_tools,
            "tools/call": self._call_tool,
            "resources/list": lambda _message, envelope: cacheable({"resources": []}, envelope),
            "resources/templates/list": lambda _, envelope: cacheable(
                {"resourceTemplates": [TEMPLATE]}, envelope
            ),
            "resources/read": self._read_resource,
            "tasks/get": self._of_task(lambda task, _, envelope: task.to_wire(envelope)),
            "tasks/result": self._of_task(self._await_task),
            "tasks/cancel": self._of_task(self._cancel_task),
            # Our tasks ask for no input, so any is ignored.
            "tasks/update": self._of_task(lambda *_: {}),
        }

    def serve(self) -> None:
        """Serve until the client leaves.

        On SIGTERM, stop every call and raise KeyboardInterrupt.
        """
        try:
            while self._wire.is_open:
                self._wire.wait(self._patience_s(), reading=self._has_room)
                self._deliver()
                self._renew_if_idle()
                while self._has_room and (line := self._wire.take_line()) is not None:
                    self._take(line)
        finally:
            self._close()

    @property
    def _has_room(self) -> bool:
        return len(self._at_work) < MOST_CALLS

    def _close(self) -> None:
        for call in self._at_work:
            call.cancel()
        self._lanes.close(CLOSING_S)

    def _take(self, line: bytes) -> None:
        if line is TOO_LONG:
            said = f"The line has more than {MOST_LINE_BYTES:,} bytes."
            self._wire.send(refuse(Refusal(INVALID_REQUEST, said)))
            return
        message = read_message(line)
        if isinstance(message, Refusal):
            self._wire.send(refuse(message))
        elif message is not None and message.id is None:
            self._notice(message)
        elif message is not None and message.id is not None:
            self._request(message, message.id)

    def _notice(self, message: Message) -> None:
        """Handle a notification; only cancellations matter here."""
        request_id = message.params.get("requestId")
        if message.method == "notifications/cancelled" and isinstance(request_id, int | str):
            self._awaiting.pop(request_id, None)
            call = self._calls.pop(request_id, None)
            if call is not None:
                call.cancel()

    def _request(self, message: Message, request_id: RequestId) -> None:
        envelope = (
            Envelope()
            if message.method == "initialize"
            else read_envelope(message, self._handshake)
        )
        if isinstance(envelope, Refusal):
            self._answer(request_id, envelope, Envelope())
        else:
            self._answer(request_id, self._result(message, request_id, envelope), envelope)

    def _result(self, message: Message, request_id: RequestId, envelope: Envelope) -> Result:
        if request_id in {*self._calls, *self._awaiting}:
            return Refusal(INVALID_REQUEST, "A request with this id is still open.")
        method = self._methods.get(message.method)
        if method is None or not _is_of_era(message.method, envelope):
            return Refusal(METHOD_NOT_FOUND, "Method not found")
        return method(message, envelope)

    def _answer(self, request_id: RequestId, result: Result, envelope: Envelope) -> None:
        if isinstance(result, Refusal):
            self._wire.send(refuse(result, request_id))
        elif result is not None:
            self._wire.send(response(request_id, result, envelope, self._server))

    def _initialize(self, message: Message, _envelope: Envelope) -> Result:
        found = negotiate(message.params)
        if isinstance(found, Refusal):
            return found
        self._handshake = found
        capabilities: dict[str, Any] = {"tools": {}, "resources": {}}
        if found.version == TASKS_VERSION:
            capabilities["tasks"] = {"cancel": {}, "requests": {"tools": {"call": {}}}}
        return {
            "protocolVersion": found.version,
            "capabilities": capabilities,
            "serverInfo": self._server,
            "instructions": SERVER_INSTRUCTIONS,
        }

    def _discover(self, _message: Message, envelope: Envelope) -> Result:
        found = {
            "supportedVersions": [MODERN_VERSION],
            "capabilities": {"tools": {}, "resources": {}, "extensions": {TASKS_EXTENSION: {}}},
            "instructions": SERVER_INSTRUCTIONS,
        }
        return cacheable(found, envelope)

    def _list_tools(self, _message: Message, envelope: Envelope) -> Result:
        with_tasks = envelope.version == TASKS_VERSION
        return cacheable(
            {"tools": [tool.listed(with_tasks=with_tasks) for tool in self._tools.values()]},
            envelope,
        )

    def _call_tool(self, message: Message, envelope: Envelope) -> Result:
        name, wish = message.params.get("name"), message.params.get("task")
        tool = self._tools.get(name) if isinstance(name, str) else None
        if tool is None:
            return Refusal(
                INVALID_PARAMS, f"There is no such tool. Known: {', '.join(self._tools)}."
            )
        as_task = envelope.version == TASKS_VERSION and isinstance(wish, dict)
        if as_task and not tool.is_long:
            return Refusal(METHOD_NOT_FOUND, f"`{tool.name}` cannot run as a task.")
        call = Call(
            message,
            envelope,
            tool.work(self._place, message.params.get("arguments")),
            lane=tool.lane,
        )
        task = self._tasks.add(call, keep_ms=message.params["task"].get("ttl")) if as_task else None
        self._start(call)
        return {"task": task.to_wire(envelope)} if task else None

    def _read_resource(self, message: Message, envelope: Envelope) -> Result:
        async def work(_call: Call) -> dict[str, Any]:
            found = read_receipt_resource(self._place, message.params.get("uri"))
            return cacheable(found, envelope, scope="private")

        self._start(Call(message, envelope, work))
        return None

    def _start(self, call: Call) -> None:
        """Begin a call; its answer comes later, unless it is a task's."""
        if not call.task_id:
            self._calls[call.request_id] = call
        self._at_work.add(call)
        self._lanes.start(call)

    def _of_task(self, answer: Callable[[TaskRecord, Message, Envelope], Result]) -> Method:
        """Make a method that answers for the task which its message names."""

        def method(message: Message, envelope: Envelope) -> Result:
            if envelope.is_modern and not envelope.takes_tasks:
                data: dict[str, object] = {
                    "requiredCapabilities": {"extensions": {TASKS_EXTENSION: {}}}
                }
                return Refusal(MISSING_CAPABILITY, "Missing required client capability", data)
            task = self._tasks.find(message.params.get("taskId"))
            if task is None:
                return Refusal(INVALID_PARAMS, "There is no such task, or it has expired.")
            return answer(task, message, envelope)

        return method

    def _await_task(self, task: TaskRecord, message: Message, envelope: Envelope) -> Result:
        if task.is_over:
            return task.outcome()
        assert message.id is not None
        if len(self._awaiting) >= MOST_CALLS:
            return Refusal(INVALID_REQUEST, "Too many requests are waiting for tasks.")
        self._awaiting[message.id] = task, envelope
        return None

    def _cancel_task(self, task: TaskRecord, _message: Message, envelope: Envelope) -> Result:
        if task.is_over and not envelope.is_modern:
            return Refusal(INVALID_PARAMS, f"The task is {task.status}; it cannot be cancelled.")
        task.cancel()
        self._answer_waiting(task)
        return {} if envelope.is_modern else task.to_wire(envelope)

    def _deliver(self) -> None:
        """Send progress and results, and turn calls that take long into tasks for clients that
        accept them."""
        for call in self._at_work:
            token, progress = call.envelope.progress_token, call.progress
            call.progress = None
            is_told = not call.is_cancelled and not (call.task_id and call.envelope.is_modern)
            if progress is not None and token is not None and is_told:
                value, total, words = progress
                params = {"progressToken": token, "progress": value, "message": words}
                params |= {} if total is None else {"total": total}
                self._wire.send_if_read(
                    {"jsonrpc": "2.0", "method": "notifications/progress", "params": params}
                )
        for call, outcome in self._lanes.collect():
            self._at_work.discard(call)
            self._idle_since = monotonic() if self.renews else None
            self._end(call, outcome)
        for call in self._waiting_for_a_task():
            if monotonic() - call.began >= TASK_AFTER_S:
                del self._calls[call.request_id]
                handle = self._tasks.add(call).to_wire(call.envelope)
                self._answer(call.request_id, {"resultType": "task", **handle}, call.envelope)

    def _end(self, call: Call, outcome: CallOutcome) -> None:
        result = _result_of(call, outcome)
        task = self._tasks.find(call.task_id)
        if task is not None:
            task.finish(result)
            self._answer_waiting(task)
        elif not call.is_cancelled:
            del self._calls[call.request_id]
            self._answer(call.request_id, result, call.envelope)

    def _answer_waiting(self, task: TaskRecord) -> None:
        waiting = [id_ for id_, (awaited, _) in self._awaiting.items() if awaited is task]
        for request_id in waiting:
            _, envelope = self._awaiting.pop(request_id)
            self._answer(request_id, task.outcome(), envelope)

    def _waiting_for_a_task(self) -> list[Call]:
        return [
            call
            for call in self._calls.values()
            if call.envelope.takes_tasks and call.lane == JUDGING
        ]

    def _patience_s(self) -> float | None:
        """Return the seconds until something is due, if no input arrives; None: nothing is due."""
        due = [call.began + TASK_AFTER_S for call in self._waiting_for_a_task()]
        due += (
            [] if self._idle_since is None or self._at_work else [self._idle_since + RENEW_AFTER_S]
        )
        return max(0.0, min(due) - monotonic()) if due else None

    def _renew_if_idle(self) -> None:
        if (
            self._idle_since is None
            or self._at_work
            or monotonic() < self._idle_since + RENEW_AFTER_S
        ):
            return
        workers = sys.modules.get("xscore.indexer.workers")  # loaded only if something was indexed
        if workers is not None:
            workers.stop_kept_workers()  # an idle child, which a renewed process would not know
        if self._tasks.any_known or not self._wire.is_quiet or has_children():
            self._idle_since = monotonic()
            return
        self._idle_since = None  # try once: if it cannot be done now, it cannot be done later
        if can_renew():
            flags = self._place.flags.overrides
            renew(
                ServerState(
                    self._wire.in_fd,
                    self._wire.out_fd,
                    self._handshake,
                    flags,
                    len(self._tools) > 1,
                )
            )


def _is_of_era(method: str, envelope: Envelope) -> bool:
    if method in {"server/discover", "tasks/update"}:
        return envelope.is_modern
    if method in {"ping", "tasks/result"}:
        return not envelope.is_modern and (method == "ping" or envelope.version == TASKS_VERSION)
    return (
        envelope.is_modern or envelope.version == TASKS_VERSION or not method.startswith("tasks/")
    )


def _result_of(call: Call, outcome: CallOutcome) -> dict[str, Any] | Refusal:
    if outcome is None:
        return Refusal(INTERNAL_ERROR, "Internal error; see the server's standard error.")
    if not isinstance(outcome, XscoreError):
        return outcome
    if call.request.method == "tools/call":
        return failure_result(outcome)
    code = INTERNAL_ERROR
    if isinstance(outcome, NothingMatched | UsageError):
        code = INVALID_PARAMS if call.envelope.is_modern else RESOURCE_NOT_FOUND
    return Refusal(code, join_sentences(outcome.message, outcome.hint))


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
    (MCP).

    It offers one tool, `context`; `--tools all` adds `explain` and `remember`. Your agent starts
    this command itself.
    """
    if sys.stdin.isatty():
        flags.terminal.note(
            "an agent starts this and speaks MCP with it; `xscore agent install` sets it up"
        )
    kept = take_state()
    if kept is None:
        place = find_workplace(flags, folder)
        server = McpServer(StdioWire.claim_standard_streams(), place, everything=tools == "all")
        if has_store(place.root.store_dir):  # the index is up to date before the first call
            wake_background(place.root)
    else:
        place = find_workplace(replace(flags, overrides=kept.overrides))
        wire = StdioWire(kept.in_fd, kept.out_fd)
        server = McpServer(wire, place, everything=kept.everything, handshake=kept.handshake)
    server.renews = True
    server.serve()
