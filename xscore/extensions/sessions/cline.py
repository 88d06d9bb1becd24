"""Cline: `tasks/<id>/ui_messages.json` in the global storage of an editor's extension, or in `~/.cline/data`.

One JSON array a task, written anew at every step, each message with its time; so a changed file is read anew and its
exchanges are told by task and time. The folder of a task stands in `state/taskHistory.json`, or in the environment that
`api_conversation_history.json` records. Trade-offs: a file beyond 32 MiB is refused; a command counts as failed only
where its output states an exit code; the sessions of Cline's command line from version 4 on are not read.
"""

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from xscore.extensions.sessions import session_lines
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
from xscore.extensions.sessions.session_lines import parse_record, required_text, required_time, text_field

ORIGIN = "cline"
FILE = "ui_messages.json"
EXTENSION = "User/globalStorage/saoudrizwan.claude-dev"
_EDITORS = ("Code", "Code - Insiders", "VSCodium", "Cursor", "Windsurf")
_SERVERS = (".vscode-server/data", ".vscode-server-insiders/data", ".cursor-server/data")
_FOLDER = re.compile(rb"Current Working Directory \(((?:[^()\\\n\"]|\\.|\([^()\n\"]*\))+)\)")
_EXIT = re.compile(r"[Ee]xit(?:ed with)? (?:code|status):? (-?\d{1,10})")
_ASKED = frozenset({"task", "user_feedback"})
_ANSWERED = frozenset({"text", "completion_result", "plan_mode_respond", "followup"})
_EDITS = frozenset({"editedExistingFile", "newFileCreated", "fileDeleted"})


class Cline:
    """The format."""

    origin = ORIGIN

    def find(self, places: AgentFolders) -> Iterator[SessionFile]:
        """Every task of every editor, with the folder it was begun in."""
        for storage in _storages(places):
            folders = _history(storage)
            try:
                tasks = sorted((storage / "tasks").iterdir())
            except OSError:
                continue
            for task in tasks:
                if not task.is_symlink() and (task / FILE).is_file():
                    cwd = folders.get(task.name) or _recorded(task)
                    yield SessionFile(task / FILE, ORIGIN, whole=True, cwd=cwd)

    def cwd_of(self, head: bytes) -> list[str]:
        """None is recorded in the messages themselves."""
        return []

    def reader(self, file: SessionFile, state: ReaderState) -> "ClineReader":
        """Begin to read."""
        return ClineReader(file.path.parent.name, file.cwd)


def _storages(places: AgentFolders) -> Iterator[Path]:
    """Where extensions keep their files, by platform; `CLINE_DIR` and `CLINE_DATA_DIR` move Cline's own."""
    if sys.platform == "darwin":
        base = places.home / "Library/Application Support"
    else:
        base = Path(places.environ.get("XDG_CONFIG_HOME") or places.home / ".config")
    for editor in _EDITORS:
        yield base / editor / EXTENSION
    for server in _SERVERS:
        yield places.home / server / EXTENSION
    own = places.environ.get("CLINE_DATA_DIR")
    yield Path(own) if own else Path(places.environ.get("CLINE_DIR") or places.home / ".cline") / "data"


def _history(storage: Path) -> dict[str, str]:
    """Task -> folder, as far as the list of tasks tells."""
    found: dict[str, str] = {}
    try:
        with session_lines.open_session_file(storage / "state/taskHistory.json") as file:
            for line in session_lines.read_array(file):
                entry = parse_record(line) or {}
                found[text_field(entry, "id")] = text_field(entry, "cwdOnTaskInitialization")
    except (OSError, UnreadableSession):
        return found
    return found


def _recorded(task: Path) -> str:
    """The folder of the first environment that was sent along."""
    found = _FOLDER.search(session_lines.read_head(task / "api_conversation_history.json"))
    if found is None:
        return ""
    try:
        return str(json.loads(b'"' + found[1] + b'"'))
    except ValueError:
        return ""


class ClineReader:
    """Reads one task."""

    def __init__(self, task: str, cwd: str) -> None:
        self._talk = ExchangeBuilder(ORIGIN)
        self._task, self._cwd = task, cwd
        self._command = ""
        self._strange = 0
        self._is_known = False

    def take(self, line: SessionLine) -> ImportedExchange | None:
        """Read a message."""
        message = parse_record(line)
        if message is None or message.get("partial") is True:
            return None
        kind = text_field(message, required_text(message, "type", line, "a message"))
        at = required_time(message, "ts", line, "a message")
        text = text_field(message, "text")
        if kind in _ASKED or (kind == "text" and not self._is_known):
            return self._ask(text, at)
        if kind in _ANSWERED:
            self._talk.answer(_worded(text), at=at)
        elif kind == "tool":
            self._tool(text)
        elif kind == "command":
            self._command = text.removesuffix("REQ_APP").strip()
            self._talk.run(self._command, self._command)
        elif kind == "command_output":
            self._output(text)
        elif not kind:
            self._strange = self._strange or line.number
        return None

    def rest(self) -> ImportedExchange | None:
        """End the last exchange; a task of nothing but unknown messages is refused."""
        if self._strange and not self._is_known:
            raise UnreadableSession(self._strange, "expected messages of Cline, with `say` or `ask`")
        return self._talk.close()

    def mark(self) -> ReadPosition | None:
        """Always the beginning: the array is written anew as a whole."""
        return ReadPosition(0, 1, {})

    def state(self) -> ReaderState:
        """Nothing is carried over."""
        return {}

    def _ask(self, text: str, at: float) -> ImportedExchange | None:
        self._is_known = True
        return self._talk.ask(
            text,
            identity=f"{self._task}:{int(at * 1000)}",
            session=self._task,
            at=at,
            cwd=self._cwd,
            mark=ReadPosition(0, 1, {}),
        )

    def _tool(self, text: str) -> None:
        told = _object(text)
        if text_field(told, "tool") in _EDITS:
            self._talk.touch(text_field(told, "path"))

    def _output(self, text: str) -> None:
        found = _EXIT.search(text[-2000:])
        if found and self._command:
            self._talk.end(self._command, failed=int(found[1]) != 0, output=text)


def _worded(text: str) -> str:
    """What the agent said; questions and plans come as an object with the words within."""
    told = _object(text)
    return text_field(told, "response") or text_field(told, "question") or text.removesuffix("HAS_CHANGES")


def _object(text: str) -> dict[str, Any]:
    if not text.startswith("{"):
        return {}
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
