"""A model that follows a script: for tests, demonstrations and dry runs, without a network.

It reads the prompt as a model would and answers through the same interface, so the whole pipeline
runs. The script is a JSON file (`scripted:FILE`, format in docs/providers.md) or, in Python, a
function; the first rule whose every pattern fits decides. Trade-off: it imitates no model's
judgment; its tokens are characters / 4 and cost $0.
"""

import json
import re
from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from html import unescape
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from xscore.platform.errors import ProviderError, UsageError, error_kinds
from xscore.providers.hosts import NO_HOST
from xscore.providers.provider import OnText
from xscore.records.calls import Completion, Finish, Request, Usage
from xscore.records.memory import WITHIN
from xscore.settings import Settings

CHARS_PER_TOKEN = 4
REASONS_FROM = 30
STREAM_CHARS = 16

UnitShare = Annotated[float, Meta(ge=0, le=1)]
Seconds = Annotated[float, Meta(ge=0)]


class ScriptRule(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to say about memories that fit; an empty pattern fits all."""

    path: str = ""
    entity: str = ""
    text: str = ""
    task: str = ""
    """Text that is compared with the turn: everything around the memories."""
    score: UnitShare = 0.0
    reason: str = "scripted"
    refuse: bool = False
    """Whether every prompt that shows such a memory is declined."""

    def fits(self, memory: "ShownMemory", turn: str) -> bool:
        """Whether every pattern fits."""
        pairs = (
            (self.path, memory.path),
            (self.entity, memory.entity),
            (self.text, memory.text),
            (self.task, turn),
        )
        return all(_fits(text, pattern) for pattern, text in pairs)


def _fits(text: str, pattern: str) -> bool:
    if "*" in pattern or "?" in pattern:
        return fnmatchcase(text, pattern)
    return pattern in text


class PlannedError(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An error that one call meets."""

    at: Annotated[int, Meta(ge=1)]
    """The call that it is about, counted from 1."""
    kind: str
    """`kind` of a provider error: `rate_limited`, `overloaded`, `timeout`, `quota`, …"""
    retry_after_s: Seconds | None = None

    def __post_init__(self) -> None:
        if self.kind not in error_kinds():
            raise ValueError(f"there is no provider error of kind {self.kind!r}")

    def error(self) -> ProviderError:
        """Return the error to raise."""
        return error_kinds()[self.kind](
            f"scripted: call {self.at} fails as planned", retry_after_s=self.retry_after_s
        )


class Script(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A whole script."""

    default: UnitShare = 0.03
    """Score of a memory that no rule fits."""
    rules: tuple[ScriptRule, ...] = ()
    answer: str = "A scripted answer."
    """The reply to a request that does not judge."""
    latency_s: Seconds = 0.0
    errors: tuple[PlannedError, ...] = ()


def read_script(path: Path) -> Script:
    """Read a script file; raise UsageError, naming file and place, for anything that is not one."""
    hint = "docs/providers.md shows the format."
    try:
        if path.exists() and not path.is_file():  # a pipe would be waited for
            raise UsageError(f"the script {path} is not a regular file", hint=hint)
        return msgspec.json.decode(path.read_bytes(), type=Script)
    except OSError as error:
        raise UsageError(f"the script {path} cannot be read: {error}", hint=hint) from error
    except msgspec.ValidationError as error:
        raise UsageError(f"the script {path}: {error}", hint=hint) from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"the script {path} is not JSON: {error}", hint=hint) from error


_TAG = re.compile(
    r"<file\b([^<>]*+)>|</file>|<memory\b([^<>]*+)>((?:[^<]++|<(?!/?memory\b))*+)</memory>"
)
_QUESTION = re.compile(r'<question id="([^"\n]*+)">((?:[^<]++|<(?!/?question\b))*+)</question>')
_ATTRIBUTE = re.compile(r'(?<![\w-])([\w-]++)="([^"]*+)"')


class ShownMemory(Struct, frozen=True):
    """One memory as a prompt shows it."""

    id: str
    kind: str
    path: str
    entity: str
    text: str


def shown_memories(prompt: str) -> tuple[ShownMemory, ...]:
    """Return the memories of a prompt in order; equal ids are all returned."""
    path = headings = ""
    memories: list[ShownMemory] = []
    for match in _TAG.finditer(prompt):
        if not match[0].startswith("<memory"):
            path = _attributes(match[1] or "").get("path", "")
            headings = ""
            continue
        attributes = _attributes(match[2])
        entity = attributes.get("name", "")
        if entity.startswith("… > "):
            entity = headings + entity.removeprefix("…")
        headings = entity.rpartition(WITHIN)[0]
        text = match[3].strip("\n")
        memories.append(
            ShownMemory(
                attributes.get("id", ""),
                attributes.get("kind", ""),
                attributes.get("path", path),
                entity,
                text,
            )
        )
    return tuple(memories)


def shown_questions(prompt: str) -> dict[str, str]:
    """Return the questions that share a prompt, by code; none where it has one turn."""
    return dict(_QUESTION.findall(_TAG.sub(" ", prompt)))


def text_around_memories(prompt: str) -> str:
    """Return what is outside the memory blocks: the turn, and the fences."""
    return _TAG.sub(" ", prompt)


def _attributes(text: str) -> dict[str, str]:
    return {name: unescape(value) for name, value in _ATTRIBUTE.findall(text)}


ScoreFunction = Callable[[ShownMemory, str], float | tuple[float, str]]
"""Takes a memory, and the text around the memories; returns a score 0..1, with a reason or
without."""
TamperFunction = Callable[[Request, str], str]
"""Takes a request and the reply about to be given; returns the reply given instead."""


def connect(model: str, settings: Settings) -> "ScriptedProvider":
    """Return the provider of the script file `model`; raise UsageError where it cannot be read."""
    return ScriptedProvider(read_script(Path(model)))


class ScriptedProvider:
    """Answers judging requests by rules or a function, and others by a fixed text."""

    name = "scripted"
    host = NO_HOST

    def __init__(
        self,
        script: Script | None = None,
        *,
        score: ScoreFunction | None = None,
        tamper: TamperFunction | None = None,
    ) -> None:
        """`score` overrides the script's rules; `tamper` may alter any reply."""
        self.script: Script = script or Script()
        self.requests: list[Request] = []
        """Every request, in order of arrival."""
        self._score = score
        self._tamper = tamper

    async def complete(self, request: Request, on_text: OnText | None = None) -> Completion:
        """Answer after the script's latency, within the request's deadline; raise the planned error
        of this call."""
        self.requests.append(request)
        call = len(self.requests)
        if self.script.latency_s:
            import asyncio  # a turn that is all cached calls nothing

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
        """Do nothing: there is no connection."""

    def _text(self, request: Request) -> str:
        prompt = "\n\n".join(request.content)
        if not request.reply_ids:
            return self.script.answer
        shown = {memory.id: memory for memory in shown_memories(prompt)}
        if not request.reply_questions:
            scores, reasons = self._scored(request, shown, text_around_memories(prompt))
            return json.dumps({"scores": scores, "reasons": reasons})
        questions = shown_questions(prompt)
        replies = {}
        for code in request.reply_questions:
            replies[code] = self._scored(request, shown, questions[code])
        explained: list[dict[str, str]] = []
        for code, (_, reasons) in replies.items():
            explained += [{"q": code, **reason} for reason in reasons]
        return json.dumps(
            {
                "scores": {code: scores_by_id for code, (scores_by_id, _) in replies.items()},
                "reasons": explained,
            }
        )

    def _scored(
        self, request: Request, shown: Mapping[str, ShownMemory], turn: str
    ) -> tuple[dict[str, int], list[dict[str, str]]]:
        scores: dict[str, int] = {}
        reasons: list[dict[str, str]] = []
        for code in request.reply_ids:
            score, reason = 0.0, "not shown"
            if code in shown:
                score, reason = self._judge(shown[code], turn)
            scores[code] = round(score * 100)
            if scores[code] >= REASONS_FROM:
                reasons.append({"id": code, "reason": reason})
        return scores, reasons

    def _judge(self, memory: ShownMemory, turn: str) -> tuple[float, str]:
        if self._score is not None:
            score = self._score(memory, turn)
            if isinstance(score, tuple):
                return score
            return (score, "scripted")
        rule = self._rule(memory, turn)
        if rule is None:
            return (self.script.default, "no rule fits")
        return (rule.score, rule.reason)

    def _rule(self, memory: ShownMemory, turn: str) -> ScriptRule | None:
        return next((rule for rule in self.script.rules if rule.fits(memory, turn)), None)

    def _refuses(self, request: Request) -> bool:
        if not any(rule.refuse for rule in self.script.rules):
            return False
        prompt = "\n\n".join(request.content)
        rules = []
        for memory in shown_memories(prompt):
            rules.append(self._rule(memory, text_around_memories(prompt)))
        return any(rule is not None and rule.refuse for rule in rules)


def _completion(
    request: Request, text: str, finish: Finish, on_text: OnText | None
) -> Completion:
    if on_text is not None:
        for at in range(0, len(text), STREAM_CHARS):
            on_text(text[at : at + STREAM_CHARS])
    input_chars = len(request.system) + sum(len(part) for part in request.content)
    usage = Usage(
        input_tokens=-(-input_chars // CHARS_PER_TOKEN),
        output_tokens=-(-len(text) // CHARS_PER_TOKEN),
    )
    return Completion(text=text, finish=finish, usage=usage, model=request.model)
