"""The loopback judge of the state machine: it gives true scores, and counts what it was paid for.

What it delivered is counted by model, task and content, where a reply went out whole and held a valid score for it. A
reply that was cut off in its text counts for nothing here, although the repair ladder may save scores out of it: the
count may be too low, never too high, so no right behaviour is called a double payment.
"""

import json
import re
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

from tests.proof.machine_world import true_score
from tests.servers.faults import Fault
from tests.servers.judging import Counts
from tests.servers.loopback import Tally
from tests.servers.openai_server import OpenAIServer
from xscore.platform.hashing import content_hash
from xscore.providers.scripted import ShownMemory, shown_memories, text_around_memories

Paid = tuple[str, str, str]
"""Model, task and content hash."""

_TASK = re.compile(r"<task>\n(.*?)\n</task>", re.DOTALL)
_PART = re.compile(r" part (\d+)/(\d+)$")
_NOT_DELIVERED = {
    Fault.CUT,
    Fault.CUT_PROMPT,
    Fault.DRIP,
    Fault.ERROR_IN_STREAM,
    Fault.MALFORMED_CONTENT,
    Fault.REFUSAL,
    Fault.TRUNCATION,
}


class TrueJudge(OpenAIServer):
    """A host of the OpenAI dialect whose every score is true."""

    def __init__(self) -> None:
        super().__init__(score=self._score, keep_bodies=False)
        self.begin()

    def begin(self) -> None:
        """Forget everything: another example begins."""
        self.reset()
        self.counts = Counts()
        self.latency_s = 0.0
        self.delivered: Counter[Paid] = Counter()
        self.said: dict[tuple[str, str], int] = {}
        """Task and content hash -> the score that was given for it."""
        self.served = 0
        """Replies that a host would charge for."""
        self._stuck = 0

    def plan(self, trouble: Sequence[tuple[Fault, int]]) -> None:
        """Queue faults, each so many times."""
        for fault, times in trouble:
            self.misbehave(fault, times=times, retry_after_s=0.01)

    def behave(self) -> None:
        """Have no more troubles."""
        self._planned.clear()
        self.latency_s = 0.0

    def settle_down(self, *, stuck: bool = False) -> None:
        """Wait until all replies are out. stuck: those that are still under way now will stay so."""
        if stuck:
            self._stuck = self.counts.in_flight
        give_up = time.monotonic() + 10.0
        while self.counts.in_flight > self._stuck:
            assert time.monotonic() < give_up, "replies are stuck"
            time.sleep(0.002)

    def _score(self, memory: ShownMemory, turn: str) -> tuple[int, str]:
        found = _TASK.search(turn)
        task = found[1] if found else ""
        score = true_score(memory.path, memory.entity, memory.text, task)
        self.said[task, _hash(memory)] = score
        return score, "it is true"

    def envelope(self, body: dict[str, Any], content: str, tally: Tally, fault: Fault | None) -> dict[str, Any]:
        """Return the reply, counted."""
        self.served += 1
        if fault not in _NOT_DELIVERED:
            self._count(body, content, fault)
        return super().envelope(body, content, tally, fault)

    def _count(self, body: dict[str, Any], content: str, fault: Fault | None) -> None:
        prompt = self.prompt(body)
        asked = self.asked(body, prompt)
        found = _TASK.search(text_around_memories(prompt))
        if not asked or found is None:
            return
        shown = {memory.id: memory for memory in shown_memories(prompt)}
        void = {asked[0]} if fault is Fault.DUPLICATE_ID else set()
        for code, score in json.loads(content)["scores"].items():
            if code in shown and code not in void and type(score) is int and 0 <= score <= 100:
                self.delivered[str(body["model"]), found[1], _hash(shown[code])] += 1


def _hash(memory: ShownMemory) -> str:
    """Name a content as the store does: a part that others follow ends with a line end, which no prompt shows."""
    part = _PART.search(memory.entity)
    ending = "\n" if part and part[1] != part[2] else ""
    return content_hash(memory.path, memory.entity, memory.text + ending)
