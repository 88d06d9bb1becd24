"""Synthetic session files in each agent's format; none is copied from a real one."""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from xscore.extensions.sessions.claude_code import slug
from xscore.extensions.sessions.exchange_writer import SessionImportReport
from xscore.records.memory import Memory

Record = dict[str, Any]
Import = Callable[..., SessionImportReport]
Past = Callable[[], list[Memory]]
Texts = Callable[[], list[str]]


def at(second: int) -> str:
    """Return the time N seconds after ten o'clock."""
    return (
        f"2026-11-20T{10 + second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d}.000Z"
    )


class ClaudeLog:
    """A Claude Code log, record by record."""

    def __init__(
        self, cwd: Path | str, session: str = "11111111-aaaa", *, branch: str = "main"
    ) -> None:
        self.cwd, self.session, self.branch = str(cwd), session, branch
        self.records: list[Record] = []

    def user(self, content: object, *, uuid: str = "", **fields: Any) -> "ClaudeLog":
        """Add a user record, typed or not."""
        return self._add("user", {"role": "user", "content": content}, uuid, fields)

    def assistant(
        self, *content: Record, message: str = "", uuid: str = "", **fields: object
    ) -> "ClaudeLog":
        """Add one line of the agent's message."""
        number = len(self.records)
        body = {"id": message or f"msg_{number}", "role": "assistant", "content": list(content)}
        return self._add(
            "assistant", body, uuid, {"requestId": f"req_{message or number}", **fields}
        )

    def says(self, text: str, **fields: Any) -> "ClaudeLog":
        """Add the agent's words."""
        return self.assistant({"type": "text", "text": text}, **fields)

    def runs(self, command: str, output: str, *, failed: bool, call: str = "") -> "ClaudeLog":
        """Add a command and its result."""
        name = call or f"toolu_{len(self.records)}"
        self.assistant(
            {"type": "tool_use", "id": name, "name": "Bash", "input": {"command": command}}
        )
        return self.user(
            [
                {
                    "type": "tool_result",
                    "tool_use_id": name,
                    "content": output,
                    "is_error": failed,
                }
            ]
        )

    def edits(self, path: str) -> "ClaudeLog":
        """Add a file edit."""
        tool_input = {"file_path": path, "old_string": "a", "new_string": "b"}
        return self.assistant(
            {"type": "tool_use", "id": "toolu_e", "name": "Edit", "input": tool_input}
        )

    def raw(self, **record: object) -> "ClaudeLog":
        """Add any record."""
        self.records.append(record)
        return self

    def text(self) -> str:
        """Return the lines."""
        return "".join(json.dumps(record) + "\n" for record in self.records)

    def place(self, home: Path, name: str = "") -> Path:
        """Return Claude Code's path for the log."""
        return home / ".claude/projects" / slug(self.cwd) / f"{name or self.session}.jsonl"

    def write(self, home: Path, name: str = "") -> Path:
        """Write the file to the agent's folder."""
        path = self.place(home, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self.text())
        return path

    def _add(
        self, kind: str, message: Record, uuid: str, fields: Mapping[str, object]
    ) -> "ClaudeLog":
        number = len(self.records)
        self.records.append(
            {
                "parentUuid": self.records[-1].get("uuid") if self.records else None,
                "isSidechain": False,
                "userType": "external",
                "cwd": self.cwd,
                "sessionId": self.session,
                "version": "2.0.42",
                "gitBranch": self.branch,
                "type": kind,
                "message": message,
                "uuid": uuid or f"{self.session}-{number}",
                "timestamp": at(number),
                **fields,
            }
        )
        return self


class CodexLog:
    """A Codex rollout, record by record."""

    def __init__(self, cwd: Path | str, session: str = "0199-codex", **meta: object) -> None:
        self.cwd, self.session = str(cwd), session
        self.records: list[Record] = []
        if session:
            git = {"branch": "main", "commit_hash": "abc"}
            named = {
                "id": session,
                "cwd": self.cwd,
                "cli_version": "0.60.0",
                "git": git,
                **meta,
            }
            self.add("session_meta", named)

    def add(self, kind: str, payload: object) -> "CodexLog":
        """Add any record."""
        self.records.append(
            {"timestamp": at(len(self.records)), "type": kind, "payload": payload}
        )
        return self

    def event(self, kind: str, **payload: object) -> "CodexLog":
        """Add an event."""
        return self.add("event_msg", {"type": kind, **payload})

    def item(self, kind: str, **item: object) -> "CodexLog":
        """Add a completed item."""
        return self.event(
            "item_completed",
            thread_id="t",
            item={"type": kind, "id": f"i{len(self.records)}", **item},
        )

    def wire(self, role: str, text: str) -> "CodexLog":
        """Add a message as sent to the API."""
        block = {"type": "output_text" if role == "assistant" else "input_text", "text": text}
        return self.add("response_item", {"type": "message", "role": role, "content": [block]})

    def text(self) -> str:
        """Return the lines."""
        return "".join(json.dumps(record) + "\n" for record in self.records)

    def write(self, home: Path, name: str = "rollout-2026-11-20T10-00-00-x.jsonl") -> Path:
        """Write the file to the agent's folder."""
        path = home / ".codex/sessions/2026/11/20" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if name.endswith(".zst"):
            import zstandard

            path.write_bytes(zstandard.ZstdCompressor().compress(self.text().encode()))
        else:
            path.write_text(self.text())
        return path


def cline_task(
    storage: Path,
    task: str,
    messages: Iterable[Record],
    *,
    cwd: Path | str = "",
    listed: Path | str = "",
) -> Path:
    """Write a Cline task; its folder is recorded in the environment, or listed in the history."""
    folder = storage / "tasks" / task
    folder.mkdir(parents=True, exist_ok=True)
    if cwd:
        details = (
            f"<task>\nx\n</task>\n<environment_details>\n# Current Working Directory ({cwd})"
            " Files\na.py\n"
        )
        history = [{"role": "user", "content": [{"type": "text", "text": details}]}]
        (folder / "api_conversation_history.json").write_text(json.dumps(history))
    if listed:
        (storage / "state").mkdir(exist_ok=True)
        entry = {"id": task, "ts": 1, "task": "x", "cwdOnTaskInitialization": str(listed)}
        (storage / "state/taskHistory.json").write_text(json.dumps([entry]))
    path = folder / "ui_messages.json"
    path.write_text(json.dumps(list(messages)))
    return path


def say(
    kind: str, text: object = "", *, ts: int = 0, ask: bool = False, **fields: object
) -> Record:
    """Return a Cline message."""
    content = text if isinstance(text, str) else json.dumps(text)
    side = "ask" if ask else "say"
    return {"ts": 1_763_632_800_000 + ts, "type": side, side: kind, "text": content, **fields}


AIDER = """
# aider chat started at 2026-11-20 09:00:00

> Aider v0.86.1
> Main model: gpt-5 with diff edit format

#### why does the parser drop the last line?
#### it has no newline

`read_lines` stops at the newline:

```python
# this is a comment, no session
> this is no tool
#### nor is this a question
```

I fixed it in `read_lines`.

> Applied edit to src/reader.py
> Commit 1a2b3c4 fix: keep the last line

#### /add src/other.py

> Added src/other.py to the chat

# aider chat started at 2026-11-21 09:00:00

#### /ask what is a pack?

A pack is candidates that share one prompt.
"""


def words_of(text: str) -> str:
    """Join lines, so that a test can ignore line ends."""
    return re.sub(r"\s+", " ", text).strip()


def append(path: Path, log: ClaudeLog, first: int) -> None:
    """Append to the agent's file."""
    with path.open("a") as file:
        for record in log.records[first:]:
            file.write(json.dumps(record) + "\n")
