"""Claude Code: `${CLAUDE_CONFIG_DIR:-~/.claude}/projects/<slug>/<uuid>.jsonl`, one record a line.

A folder's slug replaces every other character of its path with `-`, so only each record's `cwd` is trusted. One line
holds one block of a message and partial lines repeat, so the last text counts. Resumed sessions copy their history with
the `uuid` of each record, which identifies copies. Sub-agents (`isSidechain`) and compacted text are skipped.
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
    SessionFile,
    SessionFormat,
    SessionLine,
    UnreadableSession,
)
from xscore.extensions.sessions.session_lines import (
    message_text,
    object_field,
    object_list,
    parse_record,
    required_text,
    required_time,
    text_field,
)

ORIGIN = "claude-code"
_OTHER_TYPES = frozenset({"summary", "system", "file-history-snapshot", "queue-operation", "progress", "attachment"})
_EDITS = {"Edit": "file_path", "Write": "file_path", "MultiEdit": "file_path", "NotebookEdit": "notebook_path"}
_REFUSED = ("The user doesn't want to proceed", "The user doesn't want to take this action", "Permission to use")
"""The command never ran, so it did not fail."""
_NOT_TYPED = (b'"tool_result"', b'"isSidechain":true', b'"isSidechain": true')


def find_logs(folders: AgentFolders) -> Iterator[SessionFile]:
    """Yield every log of every project."""
    configured = folders.environ.get("CLAUDE_CONFIG_DIR")
    projects = (Path(configured) if configured else folders.home / ".claude") / "projects"
    own = slug(str(folders.root))
    for folder in _entries(projects):
        if folder.is_dir(follow_symlinks=False):
            for file in _entries(Path(folder.path)):
                if file.name.endswith((".jsonl", ".jsonl.zst")):
                    yield SessionFile(Path(file.path), ORIGIN, is_in_repository=folder.name == own)


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

    def __init__(self, _file: SessionFile) -> None:
        self._builder = ExchangeBuilder(ORIGIN)
        self._is_known = False
        self._has_lines = False

    def read_line(self, line: SessionLine) -> ImportedExchange | None:
        """Read one record."""
        self._has_lines = self._has_lines or bool(line.data)
        if line.is_truncated:  # what a person typed ends the exchange; a tool's output does not
            is_typed = b'"user"' in line.data and not any(mark in line.data for mark in _NOT_TYPED)
            return self._builder.close() if is_typed else None
        record = parse_record(line)
        if record is None:
            return None
        kind, is_sub_agent = record.get("type"), bool(record.get("isSidechain"))
        self._is_known = self._is_known or is_sub_agent or kind in _OTHER_TYPES
        if kind == "user" and not is_sub_agent:
            return self._read_user(record, line)
        if kind == "assistant" and not is_sub_agent:
            self._read_assistant(record, line)
        return None

    def finish(self) -> ImportedExchange | None:
        """End the last exchange; refuse a file of unknown records only."""
        if self._has_lines and not self._is_known:
            raise UnreadableSession(1, 'expected records of Claude Code, with `"type": "user"` or `"assistant"`')
        return self._builder.close()

    def _read_user(self, record: dict[str, Any], line: SessionLine) -> ImportedExchange | None:
        message = _message(record, line)
        identity, session, cwd = (
            required_text(record, name, line, "a user record") for name in ("uuid", "sessionId", "cwd")
        )
        at = required_time(record, "timestamp", line, "a user record")
        self._is_known = True
        for block in object_list(message, "content"):
            if block.get("type") == "tool_result":
                self._read_result(block)
        if record.get("isMeta") or record.get("isCompactSummary"):
            return None
        return self._builder.ask(
            message_text(message["content"], "text"),
            identity=identity,
            session=session,
            at=at,
            cwd=cwd,
        )

    def _read_assistant(self, record: dict[str, Any], line: SessionLine) -> None:
        message = _message(record, line)
        at = required_time(record, "timestamp", line, "an assistant record")
        self._is_known = True
        if record.get("isApiErrorMessage"):
            return
        self._builder.answer(message_text(message["content"], "text"), at=at)
        for block in object_list(message, "content"):
            name, arguments = text_field(block, "name"), object_field(block, "input")
            if block.get("type") != "tool_use":
                continue
            if name in _EDITS:
                self._builder.add_paths(text_field(arguments, _EDITS[name]))
            elif name == "Bash":
                self._builder.command_started(text_field(block, "id"), text_field(arguments, "command"))

    def _read_result(self, block: dict[str, Any]) -> None:
        output = message_text(block.get("content"), "text")
        if not output.startswith(_REFUSED):
            call, failed = text_field(block, "tool_use_id"), block.get("is_error") is True
            self._builder.command_ended(call, failed=failed, output=output)


def _message(record: dict[str, Any], line: SessionLine) -> dict[str, Any]:
    message = record.get("message")
    if not isinstance(message, dict) or not isinstance(message.get("content"), str | list):
        raise UnreadableSession(line.number, "expected `message` with `content` as text or blocks")
    return message


CLAUDE_CODE = SessionFormat(ORIGIN, find_logs, ClaudeCodeReader)
