"""Codex CLI: `${CODEX_HOME:-~/.codex}/sessions/YYYY/MM/DD/rollout-*.jsonl`, `archived_sessions/`, packed when idle.

A line is {timestamp, type, payload}; the first is `session_meta`. Two or three logs in one file repeat the same words:
events (`event_msg` with `user_message`, `agent_message`), completed items, and what went over the wire
(`response_item`). The first kind of event that is met is believed from there on; the wire counts only while there is
none, without developer and system messages. `compacted` is never read: it replaces history. How a command ended is
told by `codex_tools`. Forks begin with the lines of their parent, whose `session_meta` comes last and names them both.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from xscore.hashing import digest
from xscore.sessions.codex_tools import note_event, note_item, note_response
from xscore.sessions.conversation import Conversation
from xscore.sessions.exchange import Exchange
from xscore.sessions.json_lines import (
    folders_in,
    looks_whole,
    needed,
    needed_moment,
    object_in,
    record_of,
    text_in,
    texts_of,
)
from xscore.sessions.session_format import Line, Mark, Places, SessionFile, State, UnreadableSession

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

    def find(self, places: Places) -> Iterator[SessionFile]:
        """Every rollout, of all days, archived ones too."""
        chosen = places.environ.get("CODEX_HOME")
        home = Path(chosen) if chosen else places.home / ".codex"
        for folder in ("sessions", "archived_sessions"):
            for path in _logs(home / folder):
                yield SessionFile(path, ORIGIN)

    def cwd_of(self, head: bytes) -> list[str]:
        """The folders that the first records name."""
        return folders_in(head)

    def reader(self, file: SessionFile, state: State) -> "CodexReader":
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

    def __init__(self, state: State) -> None:
        self._talk = Conversation(ORIGIN)
        self._lane = str(state.get("lane") or _WIRE)
        self._session = str(state.get("session") or "")
        self._cwd = str(state.get("cwd") or "")
        self._branch = ""
        self._chain = str(state.get("chain") or "")
        self._is_agent = bool(state.get("agent"))
        self._is_known = bool(state)
        self._strange = 0

    def take(self, line: Line) -> Exchange | None:
        """Read a record."""
        data = line.data
        if line.is_cut:
            return self._talk.close() if _PERSONS.search(data) and b'"compacted"' not in data else None
        if looks_whole(line) and self._is_passed_over(data):
            return None
        record = record_of(line)
        return self._read(record, line) if record is not None else None

    def rest(self) -> Exchange | None:
        """End the last exchange; a file of nothing but unknown records is refused."""
        if self._strange and not self._is_known:
            raise UnreadableSession(self._strange, f"expected records of Codex: {', '.join(sorted(_TYPES))}")
        return self._talk.close()

    def mark(self) -> Mark | None:
        """Where the open exchange began."""
        return self._talk.mark

    def state(self) -> State:
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

    def _read(self, record: dict[str, Any], line: Line) -> Exchange | None:
        kind, payload = text_in(record, "type"), object_in(record, "payload")
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
                self._cwd = text_in(payload, "cwd") or self._cwd
            case "event_msg" | "response_item" if not self._is_agent:
                at = needed_moment(record, "timestamp", line, f"a record of type {kind}")
                said = self._event(payload, at) if kind == "event_msg" else self._response(payload, at)
                return self._ask(said, at, line) if said else None
        return None

    def _meta(self, payload: dict[str, Any], line: Line) -> None:
        """The first names folder and branch; a parent's, before the first exchange, names the session."""
        name = needed(payload, "id", line, "a session_meta record")
        cwd = needed(payload, "cwd", line, "a session_meta record")
        if not self._session:
            self._cwd, self._branch = cwd, text_in(object_in(payload, "git"), "branch")
            self._is_agent = "subagent" in object_in(payload, "source")
        if not self._session or not self._chain:
            self._session = name

    def _event(self, payload: dict[str, Any], at: float) -> str:
        """Read an event; return what the person said by it."""
        match text_in(payload, "type"):
            case "user_message" if self._lane != _ITEMS:
                return self._lead(_EVENTS, text_in(payload, "message"))
            case "agent_message" if self._lane != _ITEMS:
                self._talk.answer(text_in(payload, "message"), at=at)
            case "item_completed":
                return self._item(object_in(payload, "item"), at)
            case _:
                note_event(self._talk, payload)
        return ""

    def _item(self, item: dict[str, Any], at: float) -> str:
        name = text_in(item, "type").replace("_", "").lower()
        if name == "usermessage" and self._lane != _EVENTS:
            return self._lead(_ITEMS, texts_of(item.get("content"), "text", "Text", "input_text"))
        if name == "agentmessage" and self._lane != _EVENTS:
            self._talk.answer(
                text_in(item, "text") or texts_of(item.get("content"), "text", "Text", "output_text"), at=at
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
        if text_in(payload, "type") != "message":
            note_response(self._talk, payload)
        elif self._lane == _WIRE:
            text = texts_of(payload.get("content"), "input_text", "output_text", "text")
            match payload.get("role"):
                case "assistant":
                    self._talk.answer(text, at=at)
                case "user":
                    return text
        return ""

    def _ask(self, text: str, at: float, line: Line) -> Exchange | None:
        before = self.state()
        identity = digest("codex exchange", self._chain, self._session if not self._chain else "", text)
        mark = Mark(line.offset, line.number, before)
        ended = self._talk.ask(
            text, identity=identity, session=self._session, at=at, cwd=self._cwd, branch=self._branch, mark=mark
        )
        if self._talk.mark is mark:
            self._chain = identity
        return ended
