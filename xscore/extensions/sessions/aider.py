"""Aider: `.aider.chat.history.md` in the root of the repository, Markdown for people.

`# aider chat started at …` opens a session, `#### ` is what the person said, `> ` what the tool said, all else the
model. Within a fence all of these are content; only a later session's head ends a fence that was never closed.
A history that git tracks came with the repository and is no one's own: it is left out.
Trade-offs: there is one time a session, so its exchanges are a second apart; how a command ended is not told.
"""

import os
import re
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

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
from xscore.platform.git import run_git
from xscore.platform.hashing import digest

ORIGIN = "aider"
FILE = ".aider.chat.history.md"
MAX_ANSWER_BYTES = 256_000
_SPEAKING = b"#>`"
"""What a line begins with that may not be the model's words; lines between are read as one."""
_HEAD = re.compile(r"# aider chat started at (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)\s*\Z")
_FENCE = re.compile(r"(`{3,})[^`]*\Z")
_SPOKEN = re.compile(r"/(?:ask|code|architect|context)\s+(.+)", re.DOTALL)
"""Commands that say something to the model; all others speak to Aider."""
_EDITED = "Applied edit to "


class Aider:
    """The format."""

    origin = ORIGIN

    def find(self, places: AgentFolders) -> Iterator[SessionFile]:
        """The one file there is."""
        root, path = places.root, places.root / FILE
        if path.is_file() and path in root.iterdir():  # not by another spelling, which git would know it by
            foreign = _why_not_yours(root)
            yield SessionFile(path, ORIGIN, certain=True, cwd=str(root), speaking=_SPEAKING, left_out=foreign)

    def cwd_of(self, head: bytes) -> list[str]:
        """None is recorded."""
        return []

    def reader(self, file: SessionFile, state: ReaderState) -> "AiderReader":
        """Begin to read."""
        return AiderReader(file.cwd, state)


def _why_not_yours(root: Path) -> str:
    """A history that comes with the repository says what its authors want it to say; empty: it does not."""
    tracked = run_git(root, "ls-files", "-z", "--", FILE)
    if tracked is None:
        return "git cannot say whether it came with the repository" if os.path.lexists(root / ".git") else ""
    return "tracked by git: not yours to import" if tracked else ""


class AiderReader:
    """Reads the history."""

    def __init__(self, cwd: str, state: ReaderState) -> None:
        self._talk = ExchangeBuilder(ORIGIN)
        self._cwd = cwd
        self._session = str(state.get("session") or "")
        self._ordinal = int(str(state.get("ordinal") or 0))
        self._asking: list[str] = []
        self._mark: ReadPosition | None = None
        """Of the first line of what is being asked."""
        self._is_cut = False
        """Whether a line of what is being asked is too long to read."""
        self._answer: list[bytes] = []
        self._answer_bytes = 0
        self._fence = ""

    def take(self, line: SessionLine) -> ImportedExchange | None:
        """Read a line, or a run of the model's, which are only kept."""
        if (not line.data or line.data[0] not in _SPEAKING) and self._mark is None and self._session:
            self._add(line.data)
            return None
        text = line.data.decode("utf-8", "replace").removeprefix("\ufeff")
        head = _HEAD.match(text)
        if head and (not self._fence or head[1] > self._session):
            return self._begin(head[1], line)
        if self._fence:
            if text.rstrip() and not text.strip().strip("`") and len(text.strip()) >= len(self._fence):
                self._fence = ""
            self._add(line.data)
            return None
        if text.startswith("####"):
            self._hear(text, line)
            return None
        ended = self._ask()
        if text.startswith("> ") or text.rstrip() == ">":
            self._note(text[2:].strip())
            return ended
        opening = _FENCE.match(text)
        self._fence = opening[1] if opening else ""
        if not self._session and text.strip():
            blank = text[: -len(text.lstrip())].count("\n")
            raise UnreadableSession(line.number + blank, "expected `# aider chat started at YYYY-MM-DD HH:MM:SS` first")
        self._add(line.data)
        return ended

    def rest(self) -> ImportedExchange | None:
        """End the last exchange."""
        return self._ask() or self._close()

    def mark(self) -> ReadPosition | None:
        """Where the open exchange began, or what is being asked."""
        return self._mark or self._talk.mark

    def state(self) -> ReaderState:
        """Session, and how many questions it had."""
        return {"session": self._session, "ordinal": self._ordinal}

    def _begin(self, started: str, line: SessionLine) -> ImportedExchange | None:
        try:
            datetime.fromisoformat(started)
        except ValueError as error:
            raise UnreadableSession(line.number, f"expected a time in the head of a session ({error})") from error
        ended = self._ask() or self._close()
        self._close()
        self._session, self._ordinal, self._fence = started, 0, ""
        return ended

    def _hear(self, text: str, line: SessionLine) -> None:
        if not self._session:
            raise UnreadableSession(line.number, "expected `# aider chat started at YYYY-MM-DD HH:MM:SS` first")
        if self._mark is None:
            self._mark = ReadPosition(line.offset, line.number, self.state())
        self._asking.append(text[4:].strip())
        self._is_cut = self._is_cut or line.is_cut

    def _ask(self) -> ImportedExchange | None:
        """Open the exchange that was asked for, now that all its lines are there; return the one before."""
        if self._mark is None:
            return None
        asked, mark = "" if self._is_cut else "\n".join(self._asking).strip(), self._mark
        self._asking, self._mark, self._is_cut = [], None, False
        ended = self._close()
        self._ordinal += 1
        spoken = _SPOKEN.fullmatch(asked) if asked.startswith("/") else None
        if asked.startswith("/") and spoken is None:
            return ended
        self._talk.ask(
            spoken[1] if spoken else asked,
            identity=digest("aider exchange", self._session, str(self._ordinal), asked),
            session=self._session,
            at=datetime.fromisoformat(self._session).timestamp() + self._ordinal,
            cwd=self._cwd,
            mark=mark,
        )
        return ended

    def _note(self, told: str) -> None:
        if told.startswith(_EDITED):
            self._talk.touch(told.removeprefix(_EDITED))

    def _add(self, data: bytes) -> None:
        """Keep the model's lines, up to the one that fills the measure."""
        room = MAX_ANSWER_BYTES - self._answer_bytes
        if room > 0:
            end = data.find(b"\n", room - 1) if len(data) >= room else -1
            self._answer.append(data if end < 0 else data[:end])
            self._answer_bytes += len(self._answer[-1]) + 1

    def _close(self) -> ImportedExchange | None:
        self._talk.answer(b"\n".join(self._answer).decode("utf-8", "replace"))
        self._answer, self._answer_bytes = [], 0
        return self._talk.close()
