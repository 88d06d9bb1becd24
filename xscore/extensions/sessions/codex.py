"""Codex CLI: `${CODEX_HOME:-~/.codex}/sessions/YYYY/MM/DD/rollout-*.jsonl` and
`archived_sessions/`, zstd when idle.

A line is {timestamp, type, payload}; the first is `session_meta`. A file holds up to three logs of
the same words: events, completed items and the wire (`response_item`). The first of events or items
that appears is believed from there on; the wire counts only before. `compacted` is never read,
since it replaces history. A fork begins with its parent's lines. Trade-off: on the wire, only the
words `Exit code: N` say how a command ended.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

from xscore.extensions.sessions.session_lines import (
    SessionLine,
    UnreadableSession,
    message_text,
    object_field,
    object_list,
    parse_object,
    required_text,
    required_time,
    text_field,
)
from xscore.extensions.sessions.session_reader import (
    LOG_ENDINGS,
    AgentFolders,
    SessionFile,
    SessionReader,
    entries,
)
from xscore.platform.hashing import digest

_WIRE, _EVENTS, _ITEMS = "wire", "events", "items"
_TYPES = frozenset({"session_meta", "event_msg", "response_item", "turn_context", "compacted"})
_SHELLS = frozenset({"shell", "shell_command", "exec_command", "local_shell", "container.exec"})
_EXIT = re.compile(r"[Ee]xit(?:ed with)? code:? (-?\d{1,10})")
_TYPED = re.compile(rb'(?<!\\)"user(?:_?message)?"', re.IGNORECASE)
"""Matches where a line shows that a person typed it; quotes inside text are escaped."""


class CodexReader(SessionReader):
    """Reads one rollout."""

    origin = "codex"
    expected: ClassVar[str] = f"expected records of Codex: {', '.join(sorted(_TYPES))}"

    _log = _WIRE
    """The log that is believed."""
    _session = _cwd = ""
    _previous_id = ""
    """Identity of the exchange before. Identities form a chain, so that copies in forks
    match."""
    _is_agent = False

    @staticmethod
    def find(folders: AgentFolders) -> Iterator[SessionFile]:
        """Yield every rollout of all days, archived ones too."""
        configured = folders.environ.get("CODEX_HOME")
        home = Path(configured) if configured else folders.home / ".codex"
        for name in ("sessions", "archived_sessions"):
            yield from map(SessionFile, _rollouts(home / name, depth=4))

    def is_typed(self, start: bytes) -> bool:
        """Tell by the types."""
        return bool(_TYPED.search(start)) and b'"compacted"' not in start

    def read_record(self, record: dict[str, Any], line: SessionLine) -> None:
        """Read what the log says about the session, its folder, or an exchange."""
        kind = text_field(record, "type")
        payload = object_field(record, "payload")
        if not self._session and kind != "session_meta":
            raise UnreadableSession(
                line.number, "expected a `session_meta` record of Codex before all others"
            )
        if kind not in _TYPES:
            self.unknown(line)
            return
        if not isinstance(record.get("payload", {}), dict):
            raise UnreadableSession(line.number, "expected `payload` to be an object")
        if kind != "session_meta":
            self.known()
        if kind == "session_meta":
            self._read_meta(payload, line)
        elif kind == "turn_context":
            self._cwd = text_field(payload, "cwd") or self._cwd
        elif kind != "compacted" and not self._is_agent:
            at = required_time(record, "timestamp", line, f"a record of type {kind}")
            if kind == "event_msg":
                typed = self._read_event(payload, at)
            else:
                typed = self._read_response(payload, at)
            if typed:
                self._ask(typed, at)

    def _read_meta(self, payload: dict[str, Any], line: SessionLine) -> None:
        """The first names the folder; a parent's, before the first exchange, names the session."""
        name = required_text(payload, "id", line, "a session_meta record")
        cwd = required_text(payload, "cwd", line, "a session_meta record")
        if not self._session:
            self._cwd = cwd
            self._is_agent = "subagent" in object_field(payload, "source")
        if not self._session or not self._previous_id:
            self._session = name

    def _read_event(self, payload: dict[str, Any], at: float) -> str:
        """Read an event and return what the person typed, if it says so."""
        kind = text_field(payload, "type")
        if kind == "item_completed":
            return self._read_item(object_field(payload, "item"), at)
        if kind == "user_message" and self._log != _ITEMS:
            return self._believe(_EVENTS, text_field(payload, "message"))
        if kind == "agent_message" and self._log != _ITEMS:
            self.answer(text_field(payload, "message"), at=at)
        elif kind == "exec_command_begin":
            self.command_started(text_field(payload, "call_id"), _command_of(payload))
        elif kind == "exec_command_end":
            self._command_ended(text_field(payload, "call_id"), payload)
        elif kind == "patch_apply_end" and payload.get("success") is not False:
            self.add_paths(*object_field(payload, "changes"))
        return ""

    def _read_item(self, item: dict[str, Any], at: float) -> str:
        kind = text_field(item, "type").replace("_", "").lower()
        if kind == "usermessage" and self._log != _EVENTS:
            return self._believe(
                _ITEMS, message_text(item.get("content"), "text", "Text", "input_text")
            )
        if kind == "agentmessage" and self._log != _EVENTS:
            words = text_field(item, "text") or message_text(
                item.get("content"), "text", "Text", "output_text"
            )
            self.answer(words, at=at)
        elif kind == "commandexecution":
            self._command_ended(text_field(item, "id"), item)
        elif kind == "filechange":
            changed = [text_field(change, "path") for change in object_list(item, "changes")]
            self.add_paths(*changed, *object_field(item, "changes"))
        return ""

    def _believe(self, log: str, text: str) -> str:
        """Believe this log from now on; a wire message just before said the same words."""
        was_wire = self._log == _WIRE
        self._log = log
        if was_wire and self.is_unanswered:
            return ""
        return text

    def _read_response(self, payload: dict[str, Any], at: float) -> str:
        """Read a wire record: a message, a tool call, or a tool's output."""
        call, kind, name = (text_field(payload, field) for field in ("call_id", "type", "name"))
        arguments = parse_object(text_field(payload, "arguments"))
        if kind == "message" and self._log == _WIRE:
            text = message_text(payload.get("content"), "input_text", "output_text", "text")
            if payload.get("role") == "user":
                return text
            if payload.get("role") == "assistant":
                self.answer(text, at=at)
        elif kind == "function_call" and name in _SHELLS:
            self._command_started(call, _command_of(arguments))
        elif kind == "function_call" and name != "apply_patch":
            self.tool_called(call, name, arguments)
        elif kind == "local_shell_call":
            self._command_started(call, _command_of(object_field(payload, "action")))
        elif kind in ("function_call", "custom_tool_call") and name == "apply_patch":
            self.add_paths(
                *_patched_files(text_field(payload, "input") or text_field(arguments, "input"))
            )
        elif kind in ("function_call_output", "custom_tool_call_output"):
            self._read_output(call, payload.get("output"))
        return ""

    def _command_started(self, call: str, command: str) -> None:
        """A shell command that only applies a patch is not worth remembering."""
        files = _patched_files(command) if "*** Begin Patch" in command else []
        self.add_paths(*files)
        if not files:
            self.command_started(call, command)

    def _command_ended(self, call: str, report: dict[str, Any]) -> None:
        self.command_started(call, _command_of(report))
        code = report.get("exit_code", report.get("exitCode"))
        output = text_field(report, "aggregated_output")
        output = output or text_field(report, "aggregatedOutput")
        if not output:
            streams = (text_field(report, "stdout"), text_field(report, "stderr"))
            output = "\n".join(streams).strip()
        if isinstance(code, int):
            self.command_ended(call, failed=code != 0, output=output)

    def _read_output(self, call: str, output: object) -> None:
        if isinstance(output, str):
            text = output
        else:
            text = json.dumps(output, ensure_ascii=False)
        report = parse_object(text)
        text = text_field(report, "output") or text
        code = object_field(report, "metadata").get("exit_code")
        match = _EXIT.search(text[:400])
        if not isinstance(code, int) and match:
            code = int(match[1])
        if isinstance(code, int):
            self.command_ended(call, failed=code != 0, output=text)
        self.tool_returned(call, failed=False, output=text)

    def _ask(self, text: str, at: float) -> None:
        session = "" if self._previous_id else self._session
        identity = digest("codex exchange", self._previous_id, session, text)
        if self.ask(text, identity=identity, session=self._session, at=at, cwd=self._cwd):
            self._previous_id = identity


def _rollouts(folder: Path, *, depth: int) -> Iterator[Path]:
    """Yield the rollouts of a folder and of those below it; no links are followed."""
    for entry in entries(folder):
        if entry.is_symlink():
            continue
        if depth and entry.is_dir():
            yield from _rollouts(entry, depth=depth - 1)
        elif entry.name.startswith("rollout-") and entry.name.endswith(LOG_ENDINGS):
            yield entry


def _patched_files(patch: str) -> list[str]:
    """Return the files named in a patch of the form `*** Update File: …`."""
    heads = ("*** Update File: ", "*** Add File: ", "*** Delete File: ", "*** Move to: ")
    heading_lines = [line for line in patch.splitlines() if line.startswith(heads)]
    return [line.partition(": ")[2].strip() for line in heading_lines]


def _command_of(call: dict[str, Any]) -> str:
    """Return the command as a person would type it, without the shell that runs it."""
    command = call.get("command", call.get("cmd"))
    if isinstance(command, str):
        return command
    words: list[str] = []
    if isinstance(command, list):
        words = [word for word in command if isinstance(word, str)]
    if (
        len(words) >= 3
        and words[0].rpartition("/")[2] in ("bash", "sh", "zsh")
        and words[1] in ("-lc", "-c")
    ):
        return words[2]
    return " ".join(words)
