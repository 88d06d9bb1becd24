"""Record every turn of a session while the readers of past sessions read its log.

The readers know the formats; here is what an import drops: each thing that the agent said, each
call, and the frame of what it returned. Whole outputs are kept only of turns that are asked for, so
a log of any size takes little memory. Trade-off: a run of calls without a word between them is cut
into turns by number.
"""

import re
from collections.abc import Collection, Mapping
from typing import Any

from msgspec import Struct, field

from xscore.extensions.compression.output_frames import frame_output, redacted_words
from xscore.extensions.compression.session_turns import (
    CallOutcome,
    LoggedCall,
    OpenItem,
    SessionTurn,
    Speaker,
)
from xscore.extensions.sessions.aider import AiderReader
from xscore.extensions.sessions.claude_code import ClaudeCodeReader
from xscore.extensions.sessions.cline import ClineReader
from xscore.extensions.sessions.codex import CodexReader
from xscore.extensions.sessions.exchange_writer import answers_by_failing
from xscore.extensions.sessions.session_lines import object_list, text_field
from xscore.extensions.sessions.session_reader import SessionFile, SessionReader
from xscore.platform import tokens
from xscore.platform.text import ellipsize
from xscore.platform.text_names import names_in
from xscore.prompts.fences import shorten_middle
from xscore.prompts.injected_text import cleaned_text, spoken_text, without_recall
from xscore.store.imported_memories import imported_exchange_id

COMMAND_CHARS = 400
"""Longest command kept whole. A longer one, such as a script in a here-document, keeps its
start and its end."""
NAMED_CHARS = 4_000
"""How much of a longer command is searched for names, which are kept too."""
SUBJECT_CHARS = 160
MOST_CALLS = 12
"""Most calls kept of one turn."""
_EXIT_CODE = r"\b[Ee]xit(?:ed with)? (?:code|status):? (-?\d{1,10})"
_EXIT_CODE_CHARS = 200
"""How much of an output is searched for an exit code."""
_PATHS = ("file_path", "notebook_path", "path", "absolute_path")
_SUBJECTS = ("pattern", "query", "url", "description", "prompt", "skill")
_DONE = frozenset({"completed", "done", "deleted", "cancelled"})
_LISTS = {"TodoWrite": ("todos", "content"), "update_plan": ("plan", "step")}
"""Tools that write the agent's whole list of what to do: the list's field, and an item's text."""
_THEIR_WORDS = "the user said:"
"""What precedes the user's words in a refused call."""


class _CallDraft(Struct):
    tool: str
    subject: str
    path: str
    outcome: CallOutcome = CallOutcome.UNKNOWN
    output: str = ""


class _TurnDraft(Struct):
    speaker: Speaker
    words: str
    memory_id: str
    calls: list[_CallDraft] = field(default_factory=list)


class TurnRecorder(SessionReader):
    """Records what a reader reads; a subclass names it before the reader, so that it is called
    first."""

    def record_turns(self, *, allow_pii: bool, shown_whole: Collection[int] = ()) -> None:
        """Begin. shown_whole: numbers of the turns whose outputs are kept as they are."""
        self._allow_pii = allow_pii
        self._shown_whole = frozenset(shown_whole)
        self._draft: _TurnDraft | None = None
        self._calls_by_id: dict[str, _CallDraft] = {}
        self._memory_id = ""
        self._folder = ""
        self.turns: list[SessionTurn] = []
        self.session: str = ""
        self.changed: dict[str, None] = {}
        """Files that were changed, the latest last."""
        self.items: dict[str, OpenItem] = {}

    def ask(self, text: str, *, identity: str, session: str, at: float, cwd: str) -> bool:
        """Record what the user typed."""
        if not super().ask(text, identity=identity, session=session, at=at, cwd=cwd):
            return False
        self.session = cleaned_text(session)
        self._folder = cwd
        self._memory_id = imported_exchange_id(self.origin, identity)
        self._begin(Speaker.USER, spoken_text(text))
        return True

    def answer(self, text: str, *, at: float = 0.0) -> None:
        """Record what the agent said; if a message is written in parts, the last one."""
        super().answer(text, at=at)
        words = without_recall(cleaned_text(text))
        if self._open is None or not words:
            return
        draft = self._draft
        is_silent = draft is not None and draft.speaker is Speaker.AGENT and not draft.calls
        if draft is not None and is_silent and words.startswith(draft.words):
            draft.words = words
            return
        self._begin(Speaker.AGENT, words)

    def add_paths(self, *paths: str) -> None:
        """Record changed files."""
        super().add_paths(*paths)
        for path in filter(None, paths if self._open else ()):
            name = self._relative(path)
            self.changed.pop(name, None)
            self.changed[name] = None

    def command_started(self, call: str, command: str) -> None:
        """Record a shell command."""
        super().command_started(call, command)
        if self._open is not None and command.strip():
            self._call(call, _CallDraft("", cleaned_text(command).strip(), ""))

    def command_ended(self, call: str, *, failed: bool, output: str = "") -> None:
        """Record how it ended."""
        super().command_ended(call, failed=failed, output=output)
        self._returned(call, CallOutcome.FAILED if failed else CallOutcome.PASSED, output)

    def tool_called(self, call: str, name: str, arguments: Mapping[str, Any]) -> None:
        """Record a call of another tool."""
        if self._open is None or not name:
            return
        self._read_items(name, arguments)
        path = next(filter(None, (text_field(arguments, key) for key in _PATHS)), "")
        words = [text_field(arguments, key) for key in _SUBJECTS]
        subject = next(filter(None, words), "")
        self._call(call, _CallDraft(name, cleaned_text(subject), self._relative(path)))

    def tool_returned(self, call: str, *, failed: bool, output: str) -> None:
        """Record what it returned."""
        self._returned(call, CallOutcome.FAILED if failed else CallOutcome.PASSED, output)

    def call_refused(self, call: str, words: str) -> None:
        """Record that the user did not allow it, and what they said instead."""
        self._returned(call, CallOutcome.REFUSED, "")
        instead = words.partition(_THEIR_WORDS)[2]
        if self._open is not None and instead.strip():
            self._begin(Speaker.USER, spoken_text(instead))

    def finish(self) -> None:
        """End the last turn."""
        super().finish()
        self._end_turn()

    def _begin(self, speaker: Speaker, words: str) -> None:
        self._end_turn()
        self._draft = _TurnDraft(speaker, words, self._memory_id)

    def _call(self, call: str, draft: _CallDraft) -> None:
        if call in self._calls_by_id:
            return  # two logs of one file name the same call
        turn = self._draft
        if turn is None or turn.speaker is Speaker.USER or len(turn.calls) >= MOST_CALLS:
            self._begin(Speaker.AGENT, "")
        assert self._draft is not None
        self._draft.calls.append(draft)
        if call:
            self._calls_by_id[call] = draft

    def _returned(self, call: str, outcome: CallOutcome, output: str) -> None:
        draft = self._calls_by_id.get(call)
        if draft is not None and draft.outcome is CallOutcome.UNKNOWN:
            draft.outcome = outcome
            draft.output = output

    def _read_items(self, tool: str, arguments: Mapping[str, Any]) -> None:
        """Follow the agent's own list of what to do."""
        if tool in _LISTS:
            list_field, text_key = _LISTS[tool]
            self.items.clear()
            for number, entry in enumerate(object_list(arguments, list_field)):
                self._set_item(
                    str(number), text_field(entry, text_key), text_field(entry, "status")
                )
        elif tool == "TaskCreate":
            self._set_item(str(len(self.items) + 1), text_field(arguments, "subject"), "")
        elif tool == "TaskUpdate":
            task = text_field(arguments, "taskId")
            if task in self.items:
                self._set_item(task, self.items[task].text, text_field(arguments, "status"))

    def _set_item(self, number: str, text: str, status: str) -> None:
        words = redacted_words(cleaned_text(text), allow_pii=self._allow_pii)
        if words.strip():
            self.items[number] = OpenItem(ellipsize(words, SUBJECT_CHARS), status in _DONE)

    def _relative(self, path: str) -> str:
        return cleaned_text(path).removeprefix(f"{self._folder}/")

    def _end_turn(self) -> None:
        draft = self._draft
        self._draft = None
        self._calls_by_id = {}
        if draft is None or not (draft.words or draft.calls):
            return
        number = len(self.turns) + 1
        chars = tokens.size(draft.words)
        for call in draft.calls:
            chars += tokens.size(call.subject, call.path, call.output)
        turn = SessionTurn(
            number=number,
            speaker=draft.speaker,
            words=redacted_words(draft.words, allow_pii=self._allow_pii).strip(),
            calls=tuple([self._finished(call, number) for call in draft.calls]),
            memory_id=draft.memory_id,
            tokens=tokens.estimate(chars),
        )
        self.turns.append(turn)

    def _finished(self, call: _CallDraft, number: int) -> LoggedCall:
        allow_pii = self._allow_pii
        failed = call.outcome is CallOutcome.FAILED
        subject = redacted_words(call.subject, allow_pii=allow_pii)
        names: tuple[str, ...] = ()
        if call.tool:
            subject = ellipsize(subject, SUBJECT_CHARS)
        elif len(subject) > COMMAND_CHARS:
            names = tuple(names_in(subject[:NAMED_CHARS]))
            subject = shorten_middle(subject, COMMAND_CHARS)
        output = ""
        if number in self._shown_whole:
            output = redacted_words(cleaned_text(call.output), allow_pii=allow_pii)
        return LoggedCall(
            tool=call.tool,
            subject=subject,
            names=names,
            outcome=call.outcome,
            exit_code=_exit_code(call.output),
            frame=frame_output(call.output, failed=failed, allow_pii=allow_pii),
            output=output,
            answers_by_failing=answers_by_failing(call.subject),
            path=redacted_words(call.path, allow_pii=allow_pii),
        )


def _exit_code(output: str) -> int | None:
    match = re.search(_EXIT_CODE, output[:_EXIT_CODE_CHARS])
    return int(match[1]) if match else None


class ClaudeCodeSession(TurnRecorder, ClaudeCodeReader):
    """Records a log of Claude Code."""


class CodexSession(TurnRecorder, CodexReader):
    """Records a rollout of Codex."""


class AiderSession(TurnRecorder, AiderReader):
    """Records a history of Aider."""


class ClineSession(TurnRecorder, ClineReader):
    """Records a task of Cline."""


RECORDERS: Mapping[str, type[TurnRecorder]] = {
    recorder.origin: recorder
    for recorder in (ClaudeCodeSession, CodexSession, AiderSession, ClineSession)
}
"""Recorder by the name of the format."""


def recorder_of(
    file: SessionFile, origin: str, *, allow_pii: bool, shown_whole: Collection[int] = ()
) -> TurnRecorder:
    """Return a recorder of this file, ready for its first line."""
    recorder = RECORDERS[origin](file, lambda exchange: None)
    recorder.record_turns(allow_pii=allow_pii, shown_whole=shown_whole)
    return recorder
