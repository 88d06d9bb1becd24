"""A model that follows a script: for tests, demonstrations and dry runs, without a network.

It reads the prompt as a model would and answers through the same seam, so everything above it runs as in earnest. The
script is a file (`scripted:FILE`, format in docs/providers.md and in `script`) or, in Python, a function. It imitates
no model's judgment; its token counts are characters / 4 and its calls cost $0.
"""

import asyncio
import json
from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from pathlib import Path

from xscore.hashing import digest
from xscore.providers.hosts import NOWHERE
from xscore.providers.pack_reading import Shown, around_memories, shown_memories, shown_questions
from xscore.providers.provider import OnText
from xscore.providers.reply_schema import SCORE_MAX
from xscore.providers.script import Rule, Script, read_script
from xscore.records import Completion, Finish, Request, Usage
from xscore.settings import Settings

CHARS_PER_TOKEN = 4
REASONS_FROM = 30
STREAM_CHARS = 16

Scoring = Callable[[Shown, str], float | tuple[float, str]]
"""A memory, and what stands around the memories -> score 0..1, with a reason or without."""
Tamper = Callable[[Request, str], str]
"""Request and the reply about to be given -> the reply given instead."""


def connect(model: str, settings: Settings) -> "ScriptedProvider":
    """Return the provider of the script file `model`; raise UsageError where it cannot be read."""
    return ScriptedProvider(read_script(Path(model)))


class ScriptedProvider:
    """Answers judging requests by rules or a function, and others by a fixed text."""

    name = "scripted"
    host = NOWHERE

    def __init__(
        self,
        script: Script | None = None,
        *,
        score: Scoring | None = None,
        tamper: Tamper | None = None,
    ) -> None:
        """`score` stands over the script's rules; `tamper` may spoil any reply."""
        self.script = script or Script()
        self.requests: list[Request] = []
        """Every request, in order of arrival."""
        self._score = score
        self._tamper = tamper

    async def complete(self, request: Request, on_text: OnText | None = None) -> Completion:
        """Answer after the script's latency, within the request's deadline; raise the error it has for this call."""
        self.requests.append(request)
        call = len(self.requests)
        if self.script.latency_s:
            await asyncio.sleep(self.script.latency_s)
        planned = next((error for error in self.script.errors if error.at == call), None)
        if planned is not None:
            raise planned.error()
        refuses = bool(request.reply_ids) and self._refuses(request)
        text = "" if refuses else self._text(request)
        if self._tamper is not None:
            text = self._tamper(request, text)
        return _completion(request, text, Finish.REFUSAL if refuses else Finish.STOP, on_text)

    async def aclose(self) -> None:
        """Hold nothing, release nothing."""

    def _text(self, request: Request) -> str:
        prompt = "\n\n".join(request.content)
        if not request.reply_ids:
            return self.script.answer
        shown = {memory.id: memory for memory in shown_memories(prompt)}
        if not request.reply_questions:
            scores, reasons = self._scored(request, shown, around_memories(prompt))
            return json.dumps({"scores": scores, "reasons": reasons})
        asked = shown_questions(prompt)
        each = {code: self._scored(request, shown, asked[code]) for code in request.reply_questions}
        explained = [{"q": code, **reason} for code, (_, said) in each.items() for reason in said]
        return json.dumps({"scores": {code: found for code, (found, _) in each.items()}, "reasons": explained})

    def _scored(
        self, request: Request, shown: Mapping[str, Shown], turn: str
    ) -> tuple[dict[str, int], list[dict[str, str]]]:
        scores: dict[str, int] = {}
        reasons: list[dict[str, str]] = []
        for code in request.reply_ids:
            score, reason = self._judge(shown[code], turn) if code in shown else (0.0, "not shown")
            scores[code] = round(score * SCORE_MAX)
            if scores[code] >= REASONS_FROM:
                reasons.append({"id": code, "reason": reason})
        return scores, reasons

    def _judge(self, memory: Shown, turn: str) -> tuple[float, str]:
        if self._score is not None:
            given = self._score(memory, turn)
            return given if isinstance(given, tuple) else (given, "scripted")
        rule = self._rule(memory, turn)
        score = self.script.default if rule is None else rule.score
        reason = "no rule fits" if rule is None else rule.reason
        return min(1.0, max(0.0, score + self._noise(memory))), reason

    def _rule(self, memory: Shown, turn: str) -> Rule | None:
        return next((rule for rule in self.script.rules if _fits(rule, memory, turn)), None)

    def _refuses(self, request: Request) -> bool:
        if not any(rule.refuse for rule in self.script.rules):
            return False
        prompt = "\n\n".join(request.content)
        turn = around_memories(prompt)
        rules = [self._rule(memory, turn) for memory in shown_memories(prompt)]
        return any(rule is not None and rule.refuse for rule in rules)

    def _noise(self, memory: Shown) -> float:
        """Return this memory's own noise, in ±`noise`: the same in every call with the same seed."""
        if not self.script.noise:
            return 0.0
        drawn = int(digest(str(self.script.seed), memory.path, memory.entity, memory.text)[:8], 16) / 0xFFFFFFFF
        return (2 * drawn - 1) * self.script.noise


def _fits(rule: Rule, memory: Shown, turn: str) -> bool:
    return (
        _matches(rule.path, memory.path)
        and _matches(rule.entity, memory.entity)
        and _matches(rule.text, memory.text)
        and _matches(rule.task, turn)
    )


def _matches(pattern: str, text: str) -> bool:
    """Whether a text holds the pattern, or, where the pattern has `*` or `?`, is matched by it as a whole."""
    if "*" in pattern or "?" in pattern:
        return fnmatchcase(text, pattern)
    return pattern in text


def _completion(request: Request, text: str, finish: Finish, on_text: OnText | None) -> Completion:
    if on_text is not None:
        for at in range(0, len(text), STREAM_CHARS):
            on_text(text[at : at + STREAM_CHARS])
    given = len(request.system) + sum(len(part) for part in request.content)
    usage = Usage(input_tokens=-(-given // CHARS_PER_TOKEN), output_tokens=-(-len(text) // CHARS_PER_TOKEN))
    return Completion(text=text, finish=finish, usage=usage, model=request.model)
