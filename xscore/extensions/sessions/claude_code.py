"""Claude Code: `${CLAUDE_CONFIG_DIR:-~/.claude}/projects/<slug>/<uuid>.jsonl`, a record a line.

A folder's slug is its path with every other character as `-`, so it is never believed: each record's `cwd` is. One line
holds one block of a message and partial lines repeat, so the last text counts. Resumed sessions copy their history with
the `uuid` of each record, by which copies are told. Sub-agents (`isSidechain`), tool results, summaries and whatever
else is no one's words are skipped, most of it unparsed.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from xscore.extensions.sessions.exchange_builder import ExchangeBuilder
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

ORIGIN = "claude-code"
_SMALL_BYTES = 4096
"""A tool result up to this size may hold words of a person beside it and is parsed."""
_SIDECHAIN = (b'"isSidechain":true', b'"isSidechain": true')
_FAILED = (b'"is_error":true', b'"is_error": true')
_KNOWN = (b'"summary"', b'"system"', b'"file-history-snapshot"', b'"queue-operation"', b'"progress"', b'"attachment"')
_EDITS = {"Edit": "file_path", "Write": "file_path", "MultiEdit": "file_path", "NotebookEdit": "notebook_path"}
_REFUSED = ("The user doesn't want to proceed", "The user doesn't want to take this action", "Permission to use")
"""A command that was never run has not failed."""


class ClaudeCode:
    """The format."""

    origin = ORIGIN

    def find(self, places: AgentFolders) -> Iterator[SessionFile]:
        """Every log of every project; those whose folder spells this root are read to be sure."""
        chosen = places.environ.get("CLAUDE_CONFIG_DIR")
        projects = (Path(chosen) if chosen else places.home / ".claude") / "projects"
        own = slug(str(places.root))
        for folder in _entries(projects):
            if not folder.is_dir(follow_symlinks=False):
                continue
            for file in _entries(Path(folder.path)):
                if file.name.endswith((".jsonl", ".jsonl.zst")):
                    yield SessionFile(Path(file.path), ORIGIN, certain=folder.name == own)

    def cwd_of(self, head: bytes) -> list[str]:
        """The folders that the first records name."""
        return recorded_folders(head)

    def reader(self, file: SessionFile, state: ReaderState) -> "ClaudeCodeReader":
        """Begin to read."""
        return ClaudeCodeReader(known=bool(state.get("known")))


def slug(path: str) -> str:
    """Name a project's folder as Claude Code does."""
    return re.sub(r"[^A-Za-z0-9]", "-", path)


def _entries(folder: Path) -> list["os.DirEntry[str]"]:
    try:
        with os.scandir(folder) as found:
            return sorted(found, key=lambda entry: entry.name)
    except OSError:
        return []


class ClaudeCodeReader:
    """Reads one log."""

    def __init__(self, *, known: bool = False) -> None:
        self._talk = ExchangeBuilder(ORIGIN)
        self._is_known = known
        self._lines = 0

    def take(self, line: SessionLine) -> ImportedExchange | None:
        """Read a record."""
        data = line.data
        self._lines += bool(data)
        if line.is_cut:
            return self._talk.close() if self._is_a_persons(data) else None
        if looks_whole(line) and self._is_passed_over(data):
            return None
        record = parse_record(line)
        if record is None or record.get("isSidechain"):
            return None
        match record.get("type"):
            case "user":
                return self._user(record, line)
            case "assistant":
                self._assistant(record, line)
            case str():
                self._is_known = self._is_known or any(word in data for word in _KNOWN)
        return None

    def rest(self) -> ImportedExchange | None:
        """End the last exchange; a file of nothing but unknown records is refused."""
        if self._lines and not self._is_known:
            raise UnreadableSession(1, 'expected records of Claude Code, with `"type": "user"` or `"assistant"`')
        return self._talk.close()

    def mark(self) -> ReadPosition | None:
        """Where the open exchange began."""
        return self._talk.mark

    def state(self) -> ReaderState:
        """Whether any record was known."""
        return {"known": self._is_known}

    def _is_passed_over(self, data: bytes) -> bool:
        """Whether a record is not worth parsing: a long result that nobody waits for, or no one's words."""
        if b'"tool_result"' in data:
            telling = (*_FAILED, *self._talk.awaited)
            return len(data) > _SMALL_BYTES and not any(word in data for word in telling)
        if b'"user"' in data or b'"assistant"' in data:
            return False
        self._is_known = self._is_known or any(word in data for word in _KNOWN)
        return True

    def _is_a_persons(self, head: bytes) -> bool:
        """Whether a line too long to read was a person's, which ends the exchange; a tool's does not."""
        return b'"user"' in head and not any(kind in head for kind in (b'"tool_result"', *_SIDECHAIN))

    def _user(self, record: dict[str, Any], line: SessionLine) -> ImportedExchange | None:
        message = _message(record, line)
        content = message["content"]
        identity = required_text(record, "uuid", line, "a user record")
        at = required_time(record, "timestamp", line, "a user record")
        session = required_text(record, "sessionId", line, "a user record")
        cwd = required_text(record, "cwd", line, "a user record")
        self._is_known = True
        for block in object_list(message, "content"):
            if block.get("type") == "tool_result":
                self._result(block)
        if record.get("isMeta") or record.get("isCompactSummary"):
            return None
        mark = ReadPosition(line.offset, line.number, {"known": True})
        text = message_text(content, "text")
        branch = text_field(record, "gitBranch")
        return self._talk.ask(text, identity=identity, session=session, at=at, cwd=cwd, branch=branch, mark=mark)

    def _assistant(self, record: dict[str, Any], line: SessionLine) -> None:
        message = _message(record, line)
        at = required_time(record, "timestamp", line, "an assistant record")
        self._is_known = True
        if record.get("isApiErrorMessage"):
            return
        self._talk.answer(message_text(message["content"], "text"), at=at)
        for block in object_list(message, "content"):
            if block.get("type") == "tool_use":
                self._tool(block)

    def _tool(self, block: dict[str, Any]) -> None:
        name, given = text_field(block, "name"), object_field(block, "input")
        if name in _EDITS:
            self._talk.touch(text_field(given, _EDITS[name]))
        elif name == "Bash":
            self._talk.run(text_field(block, "id"), text_field(given, "command"))

    def _result(self, block: dict[str, Any]) -> None:
        output = message_text(block.get("content"), "text")
        if not output.startswith(_REFUSED):
            self._talk.end(text_field(block, "tool_use_id"), failed=block.get("is_error") is True, output=output)


def _message(record: dict[str, Any], line: SessionLine) -> dict[str, Any]:
    """The message of a record, its content text or blocks. Raises UnreadableSession."""
    message = record.get("message")
    if not isinstance(message, dict) or not isinstance(message.get("content"), str | list):
        raise UnreadableSession(line.number, "expected `message` with `content` as text or blocks")
    return message
