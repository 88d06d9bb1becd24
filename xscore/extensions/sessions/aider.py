"""Aider: `.aider.chat.history.md` in the root of the repository, in Markdown.

`# aider chat started at …` opens a session, `#### ` is the person, `> ` is the tool, everything else is the model.
Inside a fence all of these are content; only the head of a later session ends a fence that was never closed. A history
that git tracks came with the repository, so it is skipped. Trade-offs: the format has one time per session, so its
exchanges are a second apart; it does not say how a command ended.
"""

import os
import re
from collections.abc import Iterator
from datetime import datetime

from xscore.extensions.sessions.exchange_builder import ExchangeBuilder
from xscore.extensions.sessions.session_format import (
    AgentFolders,
    ImportedExchange,
    SessionFile,
    SessionFormat,
    SessionLine,
    UnreadableSession,
)
from xscore.platform.git import run_git
from xscore.platform.hashing import digest

ORIGIN = "aider"
FILE = ".aider.chat.history.md"
MAX_ANSWER_BYTES = 256_000
_HEAD = re.compile(r"# aider chat started at (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)\s*\Z")
_HEAD_STARTS = (b"# aider", b"\xef\xbb\xbf")
_EXPECTED = "expected `# aider chat started at YYYY-MM-DD HH:MM:SS` first"
_FENCE = re.compile(r"(`{3,})[^`]*\Z")
_SPOKEN = re.compile(r"/(?:ask|code|architect|context)\s+(.+)", re.DOTALL)
"""Commands that talk to the model; all others talk to Aider."""
_EDITED = "> Applied edit to "


def find_history(folders: AgentFolders) -> Iterator[SessionFile]:
    """Yield the one history file."""
    root, path = folders.root, folders.root / FILE
    if path.is_file() and path in root.iterdir():  # not under another spelling, which git would not recognise
        tracked = run_git(root, "ls-files", "-z", "--", FILE)
        reason = "tracked by git: not yours to import" if tracked else ""
        if tracked is None and os.path.lexists(root / ".git"):
            reason = "git cannot say whether it came with the repository"
        yield SessionFile(path, ORIGIN, is_in_repository=True, cwd=str(root), skip_reason=reason)


class AiderReader:
    """Reads the history."""

    def __init__(self, file: SessionFile) -> None:
        self._builder = ExchangeBuilder(ORIGIN)
        self._cwd = file.cwd
        self._session = ""
        self._ordinal = 0
        """Of the last question of the session."""
        self._question: list[str] = []
        self._is_unreadable = False
        """Whether a line of that question is too long."""
        self._answer: list[bytes] = []
        self._room = MAX_ANSWER_BYTES
        self._fence = ""

    def read_line(self, line: SessionLine) -> ImportedExchange | None:
        """Read one line."""
        data = line.data
        if self._fence and b"`" not in data and not data.startswith(_HEAD_STARTS):
            if self._room > 0:  # most lines of a history: content that ends neither fence nor session
                self._answer.append(data)
                self._room -= len(data) + 1
            return None
        text = data.decode("utf-8", "replace").removeprefix("\ufeff")
        head = _HEAD.match(text)
        if head and (not self._fence or head[1] > self._session):
            return self._begin_session(head[1], line)
        if not self._session and text.strip():
            raise UnreadableSession(line.number, _EXPECTED)
        if text.startswith("####") and not self._fence:
            self._question.append(text[4:].strip())
            self._is_unreadable = self._is_unreadable or line.is_truncated
            return None
        ended = None
        if self._fence:
            mark = text.strip()
            self._fence = "" if len(mark) >= len(self._fence) and not mark.strip("`") else self._fence
        else:
            ended = self._ask()
            if text.startswith("> ") or text.rstrip() == ">":
                if text.startswith(_EDITED):
                    self._builder.add_paths(text.removeprefix(_EDITED).strip())
                return ended
            opening = _FENCE.match(text)
            self._fence = opening[1] if opening else ""
        if self._room > 0:
            self._answer.append(data)
            self._room -= len(data) + 1
        return ended

    def finish(self) -> ImportedExchange | None:
        """End the last exchange."""
        return self._ask() or self._close()

    def _begin_session(self, started: str, line: SessionLine) -> ImportedExchange | None:
        try:
            datetime.fromisoformat(started)
        except ValueError as error:
            raise UnreadableSession(line.number, f"expected a time in the head of a session ({error})") from error
        ended = self.finish()
        self._close()
        self._session, self._ordinal, self._fence = started, 0, ""
        return ended

    def _ask(self) -> ImportedExchange | None:
        """Open the exchange whose question is now complete; return the one before."""
        if not self._question:
            return None
        asked = "" if self._is_unreadable else "\n".join(self._question).strip()
        self._question, self._is_unreadable = [], False
        ended = self._close()
        self._ordinal += 1
        spoken = _SPOKEN.fullmatch(asked)
        if spoken or not asked.startswith("/"):
            self._builder.ask(
                spoken[1] if spoken else asked,
                identity=digest("aider exchange", self._session, str(self._ordinal), asked),
                session=self._session,
                at=datetime.fromisoformat(self._session).timestamp() + self._ordinal,
                cwd=self._cwd,
            )
        return ended

    def _close(self) -> ImportedExchange | None:
        self._builder.answer(b"\n".join(self._answer).decode("utf-8", "replace"))
        self._answer, self._room = [], MAX_ANSWER_BYTES
        return self._builder.close()


AIDER = SessionFormat(ORIGIN, find_history, AiderReader)
