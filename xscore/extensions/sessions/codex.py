"""What Codex did during an exchange: commands with how they ended, files that were patched; from any of its logs.

The same command may be told by an event, an item and the wire; `Conversation.end` counts the first telling alone.
Trade-off: a command's end on the wire is read off the words `Exit code: N`, as the model is shown them.

Codex CLI: `${CODEX_HOME:-~/.codex}/sessions/YYYY/MM/DD/rollout-*.jsonl`, `archived_sessions/`, packed when idle.

A line is {timestamp, type, payload}; the first is `session_meta`. Two or three logs in one file repeat the same words:
events (`event_msg` with `user_message`, `agent_message`), completed items, and what went over the wire
(`response_item`). The first kind of event that is met is believed from there on; the wire counts only while there is
none, without developer and system messages. `compacted` is never read: it replaces history. How a command ended is
told by `codex_tools`. Forks begin with the lines of their parent, whose `session_meta` comes last and names them both.
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
    ReaderState,
    ReadPosition,
    SessionFile,
    SessionLine,
    UnreadableSession,
)
from xscore.extensions.sessions.session_lines import (
    looks_whole,
    message_text,
    object_field,
    object_list,
    parse_record,
    recorded_folders,
    required_text,
    required_time,
    text_field,
)
from xscore.platform.hashing import digest

_EXIT = re.compile(r"[Ee]xit(?:ed with)? code:? (-?\d{1,10})")
_SHELLS = frozenset({"shell", "shell_command", "exec_command", "local_shell", "container.exec"})


def note_event(talk: ExchangeBuilder, payload: dict[str, Any]) -> None:
    """Read `exec_command_begin`, `exec_command_end` or `patch_apply_end`."""
    match text_field(payload, "type"):
        case "exec_command_begin":
            talk.run(text_field(payload, "call_id"), command_of(payload))
        case "exec_command_end":
            _ended(talk, text_field(payload, "call_id"), payload)
        case "patch_apply_end" if payload.get("success") is not False:
            for path in object_field(payload, "changes"):
                talk.touch(path)


def note_item(talk: ExchangeBuilder, name: str, item: dict[str, Any]) -> None:
    """Read a completed item; `name` is its type in small letters."""
    if name == "commandexecution":
        _ended(talk, text_field(item, "id"), item)
    elif name == "filechange":
        for change in object_list(item, "changes"):
            talk.touch(text_field(change, "path"))
        for path in object_field(item, "changes"):
            talk.touch(path)


def note_response(talk: ExchangeBuilder, payload: dict[str, Any]) -> None:
    """Read a call of a tool on the wire, or what it returned."""
    call = text_field(payload, "call_id")
    match text_field(payload, "type"):
        case "function_call" if text_field(payload, "name") in _SHELLS:
            _run(talk, call, command_of(_arguments(payload)))
        case "local_shell_call":
            _run(talk, call, command_of(object_field(payload, "action")))
        case "function_call" | "custom_tool_call" if text_field(payload, "name") == "apply_patch":
            text = text_field(payload, "input") or text_field(_arguments(payload), "input")
            for path in patched_files(text):
                talk.touch(path)
        case "function_call_output" | "custom_tool_call_output":
            _returned(talk, call, payload.get("output"))


def command_of(given: dict[str, Any]) -> str:
    """The command as a person would type it: without the shell that runs it."""
    command = given.get("command", given.get("cmd"))
    if isinstance(command, str):
        return command
    words = [word for word in command if isinstance(word, str)] if isinstance(command, list) else []
    if len(words) >= 3 and words[0].rpartition("/")[2] in ("bash", "sh", "zsh") and words[1] in ("-lc", "-c"):
        return words[2]
    return " ".join(words)


def _run(talk: ExchangeBuilder, call: str, command: str) -> None:
    """A patch may go through the shell; it is no command worth remembering."""
    files = patched_files(command) if "*** Begin Patch" in command else []
    for path in files:
        talk.touch(path)
    if not files:
        talk.run(call, command)


def _ended(talk: ExchangeBuilder, call: str, told: dict[str, Any]) -> None:
    talk.run(call, command_of(told))
    code = told.get("exit_code", told.get("exitCode"))
    output = text_field(told, "aggregated_output") or text_field(told, "aggregatedOutput")
    output = output or f"{text_field(told, 'stdout')}\n{text_field(told, 'stderr')}".strip()
    if isinstance(code, int):
        talk.end(call, failed=code != 0, output=output)


def _returned(talk: ExchangeBuilder, call: str, output: object) -> None:
    text = output if isinstance(output, str) else json.dumps(output, ensure_ascii=False)
    code: object = None
    if text.startswith("{"):
        try:
            told = json.loads(text)
        except (ValueError, RecursionError):
            told = {}
        text = text_field(told, "output") or text
        code = object_field(told, "metadata").get("exit_code")
    found = _EXIT.search(text[:400])
    if isinstance(code, int):
        talk.end(call, failed=code != 0, output=text)
    elif found:
        talk.end(call, failed=int(found[1]) != 0, output=text)


def _arguments(payload: dict[str, Any]) -> dict[str, Any]:
    try:
        found = json.loads(text_field(payload, "arguments") or "{}")
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


ORIGIN = "codex"
_WIRE, _EVENTS, _ITEMS = "wire", "events", "items"
_CODE = re.compile(rb'exit_code\\?"\s*:\s*-?[1-9]')
_WORDS = re.compile(rb"[Ee]xit(?:ed with)? code:? -?[1-9]")
_PERSONS = re.compile(rb'(?<!\\)"user(?:_?message)?"', re.IGNORECASE)
"""In a line too long to read: that a person said it, which ends the exchange; quotes within words are escaped."""
_HEAD_BYTES = 800
"""Within these a result says in words how the command ended."""
_SMALL_BYTES = 2048
_TYPES = frozenset({"session_meta", "event_msg", "response_item", "turn_context", "compacted"})


class Codex:
    """The format."""

    origin = ORIGIN

    def find(self, places: AgentFolders) -> Iterator[SessionFile]:
        """Every rollout, of all days, archived ones too."""
        chosen = places.environ.get("CODEX_HOME")
        home = Path(chosen) if chosen else places.home / ".codex"
        for folder in ("sessions", "archived_sessions"):
            for path in _logs(home / folder):
                yield SessionFile(path, ORIGIN)

    def cwd_of(self, head: bytes) -> list[str]:
        """The folders that the first records name."""
        return recorded_folders(head)

    def reader(self, file: SessionFile, state: ReaderState) -> "CodexReader":
        """Begin to read."""
        return CodexReader(state)


def _logs(folder: Path) -> Iterator[Path]:
    todo, found = [(folder, 0)], list[Path]()
    while todo:
        place, depth = todo.pop()
        try:
            entries = list(place.iterdir())
        except OSError:
            continue
        for entry in entries:
            if entry.is_symlink():
                continue
            if depth < 4 and entry.is_dir():
                todo.append((entry, depth + 1))
            elif entry.name.startswith("rollout-") and entry.name.endswith((".jsonl", ".jsonl.zst")):
                found.append(entry)
    yield from sorted(found)


class CodexReader:
    """Reads one rollout."""

    def __init__(self, state: ReaderState) -> None:
        self._talk = ExchangeBuilder(ORIGIN)
        self._lane = str(state.get("lane") or _WIRE)
        self._session = str(state.get("session") or "")
        self._cwd = str(state.get("cwd") or "")
        self._branch = ""
        self._chain = str(state.get("chain") or "")
        self._is_agent = bool(state.get("agent"))
        self._is_known = bool(state)
        self._strange = 0

    def take(self, line: SessionLine) -> ImportedExchange | None:
        """Read a record."""
        data = line.data
        if line.is_cut:
            return self._talk.close() if _PERSONS.search(data) and b'"compacted"' not in data else None
        if looks_whole(line) and self._is_passed_over(data):
            return None
        record = parse_record(line)
        return self._read(record, line) if record is not None else None

    def rest(self) -> ImportedExchange | None:
        """End the last exchange; a file of nothing but unknown records is refused."""
        if self._strange and not self._is_known:
            raise UnreadableSession(self._strange, f"expected records of Codex: {', '.join(sorted(_TYPES))}")
        return self._talk.close()

    def mark(self) -> ReadPosition | None:
        """Where the open exchange began."""
        return self._talk.mark

    def state(self) -> ReaderState:
        """Session, folder, and which log is believed."""
        return {
            "lane": self._lane,
            "session": self._session,
            "cwd": self._cwd,
            "chain": self._chain,
            "agent": self._is_agent,
        }

    def _is_passed_over(self, data: bytes) -> bool:
        """Whether a record is not worth parsing: replaced history, thoughts, counts, what a tool returned at length."""
        if b'"replacement_history"' in data or b'"reasoning"' in data or b'"token_count"' in data:
            return True
        if b'_call_output"' not in data or len(data) <= _SMALL_BYTES:
            return False
        code = data.rfind(b"exit_code")
        failed = _CODE.match(data, code) if code >= 0 else _WORDS.search(data, 0, _HEAD_BYTES)
        return not failed and not any(call in data for call in self._talk.awaited)

    def _read(self, record: dict[str, Any], line: SessionLine) -> ImportedExchange | None:
        kind, payload = text_field(record, "type"), object_field(record, "payload")
        if not self._session and kind != "session_meta":
            raise UnreadableSession(line.number, "expected a `session_meta` record of Codex before all others")
        if kind in _TYPES and "payload" in record and not isinstance(record["payload"], dict):
            raise UnreadableSession(line.number, "expected `payload` to be an object")
        if kind not in _TYPES:
            self._strange = self._strange or line.number
        elif kind != "session_meta":
            self._is_known = True
        match kind:
            case "session_meta":
                self._meta(payload, line)
            case "turn_context":
                self._cwd = text_field(payload, "cwd") or self._cwd
            case "event_msg" | "response_item" if not self._is_agent:
                at = required_time(record, "timestamp", line, f"a record of type {kind}")
                said = self._event(payload, at) if kind == "event_msg" else self._response(payload, at)
                return self._ask(said, at, line) if said else None
        return None

    def _meta(self, payload: dict[str, Any], line: SessionLine) -> None:
        """The first names folder and branch; a parent's, before the first exchange, names the session."""
        name = required_text(payload, "id", line, "a session_meta record")
        cwd = required_text(payload, "cwd", line, "a session_meta record")
        if not self._session:
            self._cwd, self._branch = cwd, text_field(object_field(payload, "git"), "branch")
            self._is_agent = "subagent" in object_field(payload, "source")
        if not self._session or not self._chain:
            self._session = name

    def _event(self, payload: dict[str, Any], at: float) -> str:
        """Read an event; return what the person said by it."""
        match text_field(payload, "type"):
            case "user_message" if self._lane != _ITEMS:
                return self._lead(_EVENTS, text_field(payload, "message"))
            case "agent_message" if self._lane != _ITEMS:
                self._talk.answer(text_field(payload, "message"), at=at)
            case "item_completed":
                return self._item(object_field(payload, "item"), at)
            case _:
                note_event(self._talk, payload)
        return ""

    def _item(self, item: dict[str, Any], at: float) -> str:
        name = text_field(item, "type").replace("_", "").lower()
        if name == "usermessage" and self._lane != _EVENTS:
            return self._lead(_ITEMS, message_text(item.get("content"), "text", "Text", "input_text"))
        if name == "agentmessage" and self._lane != _EVENTS:
            self._talk.answer(
                text_field(item, "text") or message_text(item.get("content"), "text", "Text", "output_text"), at=at
            )
        else:
            note_item(self._talk, name, item)
        return ""

    def _lead(self, lane: str, text: str) -> str:
        """Believe this log from now on; what the wire told just before is the same words."""
        if self._lane == _WIRE:
            self._lane = lane
            if self._talk.asked and not self._talk.is_answered:
                return ""
        return text

    def _response(self, payload: dict[str, Any], at: float) -> str:
        if text_field(payload, "type") != "message":
            note_response(self._talk, payload)
        elif self._lane == _WIRE:
            text = message_text(payload.get("content"), "input_text", "output_text", "text")
            match payload.get("role"):
                case "assistant":
                    self._talk.answer(text, at=at)
                case "user":
                    return text
        return ""

    def _ask(self, text: str, at: float, line: SessionLine) -> ImportedExchange | None:
        before = self.state()
        identity = digest("codex exchange", self._chain, self._session if not self._chain else "", text)
        mark = ReadPosition(line.offset, line.number, before)
        ended = self._talk.ask(
            text, identity=identity, session=self._session, at=at, cwd=self._cwd, branch=self._branch, mark=mark
        )
        if self._talk.mark is mark:
            self._chain = identity
        return ended
