"""Aider: `.aider.chat.history.md` in the root of the repository, in Markdown.

`# aider chat started at …` opens a session, `#### ` is the person, `> ` is the tool, everything
else is the model. Inside a fence all of these are content; only the head of a later session ends a
fence that was never closed. A history that git tracks came with the repository, so it is skipped.
Trade-offs: the format has one time per session, so its exchanges are a second apart; it does not
say how a command ended.
"""

import os
import re
from collections.abc import Callable, Iterator
from datetime import datetime

from xscore.extensions.sessions.session_lines import SessionLine, UnreadableSession
from xscore.extensions.sessions.session_reader import (
    AgentFolders,
    ImportedExchange,
    SessionFile,
    SessionReader,
)
from xscore.platform.git import run_git
from xscore.platform.hashing import digest

FILE = ".aider.chat.history.md"
MAX_ANSWER_BYTES = 256_000
_HEAD = re.compile(r"# aider chat started at (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)\s*\Z")
_HEAD_STARTS = (b"# aider", b"\xef\xbb\xbf")
_EXPECTED = "expected `# aider chat started at YYYY-MM-DD HH:MM:SS` first"
_FENCE = re.compile(r"(`{3,})[^`]*\Z")
_SPOKEN = re.compile(r"/(?:ask|code|architect|context)\s+(.+)", re.DOTALL)
"""Commands that talk to the model; all others talk to Aider."""
_EDITED = "> Applied edit to "


class AiderReader(SessionReader):
    """Reads the history."""

    origin = "aider"

    _session = ""
    _ordinal = 0
    """Number of the last question of the session."""
    _is_unreadable = False
    """Whether that question has a line that is too long."""
    _room = MAX_ANSWER_BYTES
    _fence = ""

    def __init__(self, file: SessionFile, keep: Callable[[ImportedExchange], None]) -> None:
        super().__init__(file, keep)
        self._question: list[str] = []
        self._answer_lines: list[bytes] = []

    @staticmethod
    def find(folders: AgentFolders) -> Iterator[SessionFile]:
        """Yield the one history file."""
        root = folders.root
        path = folders.root / FILE
        # Not under another spelling, which git would not recognise.
        if path.is_file() and path in root.iterdir():
            tracked = run_git(root, "ls-files", "-z", "--", FILE)
            reason = "tracked by git: not yours to import" if tracked else ""
            if tracked is None and os.path.lexists(root / ".git"):
                reason = "git cannot say whether it came with the repository"
            yield SessionFile(path, is_in_repository=True, cwd=str(root), skip_reason=reason)

    def read_line(self, line: SessionLine) -> None:
        """Read one line."""
        data = line.data
        if self._fence and b"`" not in data and not data.startswith(_HEAD_STARTS):
            # Most lines of a history: content that ends neither fence nor session.
            self._add_answer(data)
            return
        text = data.decode("utf-8", "replace").removeprefix("\ufeff")
        head = _HEAD.match(text)
        if head and (not self._fence or head[1] > self._session):
            self._begin_session(head[1], line)
        elif not self._session and text.strip():
            raise UnreadableSession(line.number, _EXPECTED)
        elif self._fence:
            mark = text.strip()
            if len(mark) >= len(self._fence) and not mark.strip("`"):
                self._fence = ""
            else:
                self._fence = self._fence
            self._add_answer(data)
        elif text.startswith("####"):
            self._question.append(text[4:].strip())
            self._is_unreadable = self._is_unreadable or line.is_truncated
        else:
            self._read_spoken(text, data)

    def _read_spoken(self, text: str, data: bytes) -> None:
        """Read a line of the tool or of the model, outside a fence."""
        self._open_asked()
        if text.startswith(_EDITED):
            self.add_paths(text.removeprefix(_EDITED).strip())
        elif not text.startswith("> ") and text.rstrip() != ">":
            opening = _FENCE.match(text)
            self._fence = opening[1] if opening else ""
            self._add_answer(data)

    def finish(self) -> None:
        """End the last exchange."""
        self._open_asked()
        self.close()

    def close(self) -> None:
        """End the open exchange with the lines of its answer."""
        self.answer(b"\n".join(self._answer_lines).decode("utf-8", "replace"))
        self._answer_lines = []
        self._room = MAX_ANSWER_BYTES
        super().close()

    def _add_answer(self, data: bytes) -> None:
        if self._room > 0:
            self._answer_lines.append(data)
            self._room -= len(data) + 1

    def _begin_session(self, started: str, line: SessionLine) -> None:
        try:
            datetime.fromisoformat(started)
        except ValueError as error:
            raise UnreadableSession(
                line.number, f"expected a time in the head of a session ({error})"
            ) from error
        self.finish()
        self._session = started
        self._ordinal = 0
        self._fence = ""

    def _open_asked(self) -> None:
        """Open the exchange whose question is now complete."""
        if not self._question:
            return
        if self._is_unreadable:
            question = ""
        else:
            question = "\n".join(self._question).strip()
        self._question = []
        self._is_unreadable = False
        self.close()
        self._ordinal += 1
        spoken = _SPOKEN.fullmatch(question)
        if spoken or not question.startswith("/"):
            self.ask(
                spoken[1] if spoken else question,
                identity=digest("aider exchange", self._session, str(self._ordinal), question),
                session=self._session,
                at=datetime.fromisoformat(self._session).timestamp() + self._ordinal,
                cwd=self.file.cwd,
            )
