"""Claude Code: `${CLAUDE_CONFIG_DIR:-~/.claude}/projects/<slug>/<uuid>.jsonl`, one record a line.

A folder's slug replaces every other character of its path with `-`, so only each record's `cwd` is
trusted. One line holds one block of a message and partial lines repeat, so the last text counts.
Resumed sessions copy their history with the `uuid` of each record, which identifies copies.
Sub-agents (`isSidechain`) and compacted text are skipped.
"""

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

_OTHER_TYPES = frozenset(
    {"summary", "system", "file-history-snapshot", "queue-operation", "progress", "attachment"}
)
_EDITS = {
    "Edit": "file_path",
    "Write": "file_path",
    "MultiEdit": "file_path",
    "NotebookEdit": "notebook_path",
}
_REFUSED = (
    "The user doesn't want to proceed",
    "The user doesn't want to take this action",
    "Permission to use",
)
"""Words of a refusal: the command never ran, so it did not fail."""
_NOT_TYPED = (b'"tool_result"', b'"isSidechain":true', b'"isSidechain": true')


def slug(path: str) -> str:
    """Name a project's folder as Claude Code does."""
    return re.sub(r"[^A-Za-z0-9]", "-", path)


class ClaudeCodeReader(SessionReader):
    """Reads one log."""

    origin = "claude-code"
    expected: ClassVar[str] = (
        'expected records of Claude Code, with `"type": "user"` or `"assistant"`'
    )

    @staticmethod
    def find(folders: AgentFolders) -> Iterator[SessionFile]:
        """Yield every log of every project."""
        configured = folders.environ.get("CLAUDE_CONFIG_DIR")
        projects = (Path(configured) if configured else folders.home / ".claude") / "projects"
        own_slug = slug(str(folders.root))
        for folder in entries(projects):
            for file in entries(folder) if not folder.is_symlink() else ():
                if file.name.endswith(LOG_ENDINGS):
                    yield SessionFile(file, is_in_repository=folder.name == own_slug)

    def is_typed(self, start: bytes) -> bool:
        """Tell by the type, and by no sign of a tool's output or of a sub-agent."""
        return b'"user"' in start and not any(mark in start for mark in _NOT_TYPED)

    def read_record(self, record: dict[str, Any], line: SessionLine) -> None:
        """Read a message; all other records are side records or unknown."""
        kind = record.get("type")
        is_sub_agent = bool(record.get("isSidechain"))
        if is_sub_agent or kind in _OTHER_TYPES:
            self.known()
        elif kind == "user":
            self._read_user(record, line)
        elif kind == "assistant":
            self._read_assistant(record, line)
        else:
            self.unknown(line)

    def _read_user(self, record: dict[str, Any], line: SessionLine) -> None:
        message = _message(record, line)
        identity = required_text(record, "uuid", line, "a user record")
        session = required_text(record, "sessionId", line, "a user record")
        cwd = required_text(record, "cwd", line, "a user record")
        at = required_time(record, "timestamp", line, "a user record")
        self.known()
        for block in object_list(message, "content"):
            if block.get("type") == "tool_result":
                self._read_result(block)
        if not (record.get("isMeta") or record.get("isCompactSummary")):
            self.ask(
                message_text(message["content"], "text"),
                identity=identity,
                session=session,
                at=at,
                cwd=cwd,
            )

    def _read_assistant(self, record: dict[str, Any], line: SessionLine) -> None:
        message = _message(record, line)
        at = required_time(record, "timestamp", line, "an assistant record")
        self.known()
        if record.get("isApiErrorMessage"):
            return
        self.answer(message_text(message["content"], "text"), at=at)
        for block in object_list(message, "content"):
            name = text_field(block, "name")
            arguments = object_field(block, "input")
            if block.get("type") != "tool_use":
                continue
            if name in _EDITS:
                self.add_paths(text_field(arguments, _EDITS[name]))
            elif name == "Bash":
                self.command_started(text_field(block, "id"), text_field(arguments, "command"))
            if name != "Bash":
                self.tool_called(text_field(block, "id"), name, arguments)

    def _read_result(self, block: dict[str, Any]) -> None:
        output = message_text(block.get("content"), "text")
        call = text_field(block, "tool_use_id")
        if output.startswith(_REFUSED):
            self.call_refused(call, output)
            return
        failed = block.get("is_error") is True
        self.command_ended(call, failed=failed, output=output)
        self.tool_returned(call, failed=failed, output=output)


def _message(record: dict[str, Any], line: SessionLine) -> dict[str, Any]:
    message = record.get("message")
    if not isinstance(message, dict) or not isinstance(message.get("content"), str | list):
        raise UnreadableSession(
            line.number, "expected `message` with `content` as text or blocks"
        )
    return message
