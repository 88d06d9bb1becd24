"""Codex CLI: `${CODEX_HOME:-~/.codex}/sessions/YYYY/MM/DD/rollout-*.jsonl` and `archived_sessions/`, zstd when idle.

A line is {timestamp, type, payload}; the first is `session_meta`. A file holds up to three logs of the same words:
events, completed items and the wire (`response_item`). The first of events or items that appears is believed from there
on; the wire counts only before. `compacted` is never read, since it replaces history. A fork begins with its parent's
lines. Trade-off: on the wire, only the words `Exit code: N` say how a command ended.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from xscore.extensions.sessions.exchange_builder import ExchangeBuilder, patched_files
from xscore.extensions.sessions.session_format import (
    AgentFolders,
    ImportedExchange,
    SessionFile,
    SessionFormat,
    SessionLine,
    UnreadableSession,
)
from xscore.extensions.sessions.session_lines import (
    message_text,
    object_field,
    object_list,
    parse_object,
    parse_record,
    required_text,
    required_time,
    text_field,
)
from xscore.platform.hashing import digest

ORIGIN = "codex"
_WIRE, _EVENTS, _ITEMS = "wire", "events", "items"
_TYPES = frozenset({"session_meta", "event_msg", "response_item", "turn_context", "compacted"})
_SHELLS = frozenset({"shell", "shell_command", "exec_command", "local_shell", "container.exec"})
_EXIT = re.compile(r"[Ee]xit(?:ed with)? code:? (-?\d{1,10})")
_TYPED = re.compile(rb'(?<!\\)"user(?:_?message)?"', re.IGNORECASE)
"""Shows that a person typed a truncated line, which ends the exchange; quotes inside text are escaped."""


def find_rollouts(folders: AgentFolders) -> Iterator[SessionFile]:
    """Yield every rollout of all days, archived ones too; no links are followed."""
    configured = folders.environ.get("CODEX_HOME")
    home = Path(configured) if configured else folders.home / ".codex"
    for name in ("sessions", "archived_sessions"):
        todo, found = [(home / name, 0)], list[Path]()
        while todo:
            folder, depth = todo.pop()
            try:
                entries = [entry for entry in folder.iterdir() if not entry.is_symlink()]
            except OSError:
                continue
            for entry in entries:
                if depth < 4 and entry.is_dir():
                    todo.append((entry, depth + 1))
                elif entry.name.startswith("rollout-") and entry.name.endswith((".jsonl", ".jsonl.zst")):
                    found.append(entry)
        yield from (SessionFile(path, ORIGIN) for path in sorted(found))


class CodexReader:
    """Reads one rollout."""

    def __init__(self, _file: SessionFile) -> None:
        self._builder = ExchangeBuilder(ORIGIN)
        self._log = _WIRE
        """Which log is believed."""
        self._session = self._cwd = ""
        self._previous_id = ""
        """Identity of the exchange before; identities form a chain, so copies in forks match."""
        self._is_agent = self._is_known = False
        self._first_unknown = 0

    def read_line(self, line: SessionLine) -> ImportedExchange | None:
        """Read one record."""
        if line.is_truncated:
            is_typed = _TYPED.search(line.data) and b'"compacted"' not in line.data
            return self._builder.close() if is_typed else None
        record = parse_record(line)
        if record is None:
            return None
        kind, payload = text_field(record, "type"), object_field(record, "payload")
        if not self._session and kind != "session_meta":
            raise UnreadableSession(line.number, "expected a `session_meta` record of Codex before all others")
        if kind not in _TYPES:
            self._first_unknown = self._first_unknown or line.number
            return None
        if not isinstance(record.get("payload", {}), dict):
            raise UnreadableSession(line.number, "expected `payload` to be an object")
        self._is_known = self._is_known or kind != "session_meta"
        if kind == "session_meta":
            self._read_meta(payload, line)
        elif kind == "turn_context":
            self._cwd = text_field(payload, "cwd") or self._cwd
        elif kind != "compacted" and not self._is_agent:
            at = required_time(record, "timestamp", line, f"a record of type {kind}")
            typed = self._read_event(payload, at) if kind == "event_msg" else self._read_response(payload, at)
            return self._ask(typed, at) if typed else None
        return None

    def finish(self) -> ImportedExchange | None:
        """End the last exchange; refuse a file of unknown records only."""
        if self._first_unknown and not self._is_known:
            raise UnreadableSession(self._first_unknown, f"expected records of Codex: {', '.join(sorted(_TYPES))}")
        return self._builder.close()

    def _read_meta(self, payload: dict[str, Any], line: SessionLine) -> None:
        """The first names the folder; a parent's, before the first exchange, names the session."""
        name, cwd = (required_text(payload, field, line, "a session_meta record") for field in ("id", "cwd"))
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
            self._builder.answer(text_field(payload, "message"), at=at)
        elif kind == "exec_command_begin":
            self._builder.command_started(text_field(payload, "call_id"), command_of(payload))
        elif kind == "exec_command_end":
            self._command_ended(text_field(payload, "call_id"), payload)
        elif kind == "patch_apply_end" and payload.get("success") is not False:
            self._builder.add_paths(*object_field(payload, "changes"))
        return ""

    def _read_item(self, item: dict[str, Any], at: float) -> str:
        kind = text_field(item, "type").replace("_", "").lower()
        if kind == "usermessage" and self._log != _EVENTS:
            return self._believe(_ITEMS, message_text(item.get("content"), "text", "Text", "input_text"))
        if kind == "agentmessage" and self._log != _EVENTS:
            said = text_field(item, "text") or message_text(item.get("content"), "text", "Text", "output_text")
            self._builder.answer(said, at=at)
        elif kind == "commandexecution":
            self._command_ended(text_field(item, "id"), item)
        elif kind == "filechange":
            changed = [text_field(change, "path") for change in object_list(item, "changes")]
            self._builder.add_paths(*changed, *object_field(item, "changes"))
        return ""

    def _believe(self, log: str, text: str) -> str:
        """Believe this log from now on; a wire message just before said the same words."""
        was_wire, self._log = self._log == _WIRE, log
        return "" if was_wire and self._builder.is_unanswered else text

    def _read_response(self, payload: dict[str, Any], at: float) -> str:
        """Read a wire record: a message, a tool call, or a tool's output."""
        call, kind, name = (text_field(payload, field) for field in ("call_id", "type", "name"))
        arguments = parse_object(text_field(payload, "arguments"))
        if kind == "message" and self._log == _WIRE:
            text = message_text(payload.get("content"), "input_text", "output_text", "text")
            if payload.get("role") == "user":
                return text
            if payload.get("role") == "assistant":
                self._builder.answer(text, at=at)
        elif kind == "function_call" and name in _SHELLS:
            self._command_started(call, command_of(arguments))
        elif kind == "local_shell_call":
            self._command_started(call, command_of(object_field(payload, "action")))
        elif kind in ("function_call", "custom_tool_call") and name == "apply_patch":
            self._builder.add_paths(*patched_files(text_field(payload, "input") or text_field(arguments, "input")))
        elif kind in ("function_call_output", "custom_tool_call_output"):
            self._read_output(call, payload.get("output"))
        return ""

    def _command_started(self, call: str, command: str) -> None:
        """A shell command that only applies a patch is not worth remembering."""
        files = patched_files(command) if "*** Begin Patch" in command else []
        self._builder.add_paths(*files)
        if not files:
            self._builder.command_started(call, command)

    def _command_ended(self, call: str, report: dict[str, Any]) -> None:
        self._builder.command_started(call, command_of(report))
        code = report.get("exit_code", report.get("exitCode"))
        output = text_field(report, "aggregated_output") or text_field(report, "aggregatedOutput")
        output = output or f"{text_field(report, 'stdout')}\n{text_field(report, 'stderr')}".strip()
        if isinstance(code, int):
            self._builder.command_ended(call, failed=code != 0, output=output)

    def _read_output(self, call: str, output: object) -> None:
        text = output if isinstance(output, str) else json.dumps(output, ensure_ascii=False)
        report = parse_object(text)
        text = text_field(report, "output") or text
        code = object_field(report, "metadata").get("exit_code")
        found = _EXIT.search(text[:400])
        if not isinstance(code, int) and found:
            code = int(found[1])
        if isinstance(code, int):
            self._builder.command_ended(call, failed=code != 0, output=text)

    def _ask(self, text: str, at: float) -> ImportedExchange | None:
        identity = digest("codex exchange", self._previous_id, "" if self._previous_id else self._session, text)
        ended = self._builder.ask(text, identity=identity, session=self._session, at=at, cwd=self._cwd)
        if self._builder.identity == identity:
            self._previous_id = identity
        return ended


def command_of(call: dict[str, Any]) -> str:
    """Return the command as a person would type it, without the shell that runs it."""
    command = call.get("command", call.get("cmd"))
    if isinstance(command, str):
        return command
    words = [word for word in command if isinstance(word, str)] if isinstance(command, list) else []
    if len(words) >= 3 and words[0].rpartition("/")[2] in ("bash", "sh", "zsh") and words[1] in ("-lc", "-c"):
        return words[2]
    return " ".join(words)


CODEX = SessionFormat(ORIGIN, find_rollouts, CodexReader)
