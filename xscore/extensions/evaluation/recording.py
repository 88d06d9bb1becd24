"""Replies of models, recorded in a folder while they are paid for, and given again without a call.

A reply is found by what was asked: model, prompt and questions, not by host or time, so that a
recording can be replayed on another machine. Packs of a recorded run are made of the pool
alone, not of what the store remembers of earlier packs; otherwise no request would ever be
asked again. A torn last line, as a kill leaves it, is ignored. Trade-off: the file is read
whole, and a request that changes in one letter is another one.
"""

import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from xscore.extensions.evaluation.call_wrapping import AroundProvider
from xscore.pipeline.judge_description import JudgeDescription
from xscore.pipeline.pack_slots import PackSlots
from xscore.platform.errors import NotRecorded, UsageError
from xscore.platform.files import read_input_file
from xscore.platform.hashing import digest
from xscore.platform.processes import random_hex
from xscore.providers.provider import OnText, Provider, ProviderWrapper
from xscore.records.calls import Capability, Completion, Request
from xscore.records.candidates import Candidate, Slots
from xscore.records.memory import Layer
from xscore.scorer.pack_assignment import assign_packs
from xscore.scorer.packs import PackProfile
from xscore.store.redaction import redact
from xscore.store.store import Store

REPLIES_FILE = "replies.jsonl"
MAX_BYTES = 2_000_000_000
RECORD_AGAIN = "Record it with --record DIR."


class _Line(Struct, omit_defaults=True):
    """One line of the file: the name of the recording, a reply, or what a host can do."""

    name: str = ""
    key: str = ""
    reply: Completion | None = None
    host: Capability | None = None


class Recording(Struct):
    """A folder of recorded replies."""

    folder: Path
    sends: bool
    """Whether the model is asked for what is not recorded, and that is recorded; if not,
    `NotRecorded` is raised."""
    name: str = ""
    """Random name, which tells recordings apart; ids in recorded prompts are made from it."""
    replies: dict[str, list[Completion]] = field(default_factory=dict)
    """Replies by the key of their request; the same request may have been asked twice."""
    hosts: dict[tuple[str, str], Capability] = field(default_factory=dict)
    """What each host can do, by dialect and model."""

    @classmethod
    def open(cls, folder: Path, *, sends: bool) -> "Recording":
        """Read a recording. Raises UsageError if there is none to replay, or it cannot be read."""
        recording = cls(folder, sends)
        file = folder / REPLIES_FILE
        if file.exists():
            recording._read(read_input_file(file, max_bytes=MAX_BYTES, hint=RECORD_AGAIN))
        if recording.name:
            return recording
        if not sends:
            raise UsageError(f"{folder} holds no recorded replies", hint=RECORD_AGAIN)
        recording.name = random_hex(16)
        recording._write(_Line(name=recording.name))
        return recording

    def _read(self, data: bytes) -> None:
        decoder = msgspec.json.Decoder(_Line)
        complete, _, _ = data.rpartition(b"\n")
        for number, text in enumerate(complete.split(b"\n"), start=1):
            try:
                line = decoder.decode(text)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
                place = f"{self.folder / REPLIES_FILE}:{number}"
                raise UsageError(
                    f"{place} is not a recorded reply: {error}",
                    hint="Record it again elsewhere.",
                ) from error
            self.name = line.name or self.name
            if line.reply is not None:
                self.replies.setdefault(line.key, []).append(line.reply)
            if line.host is not None:
                self.hosts[line.host.provider, line.host.model] = line.host

    def keep(self, key: str, reply: Completion) -> None:
        """Record a reply, redacted, before anyone uses it. Raises UsageError."""
        reply = replace(reply, text=redact(reply.text).text, cost_usd=None)
        self.replies.setdefault(key, []).append(reply)
        self._write(_Line(key=key, reply=reply))

    def keep_host(self, capability: Capability | None) -> None:
        """Record what a host can do, since packs depend on it. Raises UsageError."""
        if capability is None or not self.sends:
            return
        place = (capability.provider, capability.model)
        if self.hosts.get(place) != capability:
            self.hosts[place] = capability
            self._write(_Line(host=capability))

    def _write(self, line: _Line) -> None:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            # One write a line, so that two processes do not mix theirs.
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
            descriptor = os.open(self.folder / REPLIES_FILE, flags, 0o600)
            try:
                os.write(descriptor, msgspec.json.encode(line) + b"\n")
            finally:
                os.close(descriptor)
        except OSError as error:
            raise UsageError(
                f"{self.folder} cannot be written: {error.strerror}",
                hint="Name a folder that you may write, or leave out --record.",
            ) from error

    def around(self) -> AroundProvider:
        """Return what puts the recording around a model, for one turn."""
        requests: Counter[str] = Counter()
        return lambda provider: _Recorded(provider, self, requests)

    def judge(self, judge: JudgeDescription) -> JudgeDescription:
        """Return the judge with packs of its own, and an identity that no turn of a user has."""
        if not judge.stored:
            return judge
        recorded = self.hosts.get((judge.identity.provider, judge.asked_model))
        if recorded is not None:
            judge = judge.knowing(replace(recorded, host=judge.host))
        # The ids in a prompt are secret, and the same wherever it is replayed.
        secret = self.name.encode()
        marked = judge.marked(f"/recorded-{digest(self.name)[:16]}")
        return replace(marked, slots=_PacksOfPool(), code_secret=secret)


class _Recorded(ProviderWrapper):
    """A provider whose replies are recorded, and which is not asked for what is."""

    def __init__(
        self, provider: Provider, recording: Recording, requests: Counter[str]
    ) -> None:
        super().__init__(provider)
        self._recording = recording
        self._requests = requests

    async def complete(self, request: Request, on_text: OnText | None = None) -> Completion:
        """Return the recorded reply, or ask and record. Raises NotRecorded in a replay."""
        key = request_key(self.name, request)
        replies = self._recording.replies.get(key, [])
        place = self._requests[key]
        self._requests[key] += 1
        # A second draw may send the same request as the first: it gets the second reply.
        if place < len(replies):
            return replies[place]
        if not self._recording.sends:
            raise NotRecorded(
                f"{self._recording.folder} holds no reply of {request.model} to this request",
                hint=f"{RECORD_AGAIN} The memories, the settings or this xscore have changed.",
            )
        completion = await self.provider.complete(request, on_text)
        self._recording.keep(key, completion)
        return completion


def request_key(provider: str, request: Request) -> str:
    """Return what identifies a request: all that a reply may depend on."""
    return digest(
        provider,
        request.stage,
        request.model,
        request.reasoning,
        request.decision or "",
        request.system,
        *request.content,
        "ids",
        *request.reply_ids,
        "questions",
        *request.reply_questions,
        "levels",
        *request.levels,
    )


class _PacksOfPool(PackSlots):
    """Packs made of the pool alone; nothing is read of earlier ones, or stored."""

    def of(self, memories: Sequence[Candidate], profile: PackProfile, store: Store) -> Slots:
        """Assign every memory of a pool to a pack, the user's own separately."""
        of_user = [memory for memory in memories if memory.layer is Layer.USER]
        of_repository = [memory for memory in memories if memory.layer is not Layer.USER]
        return {
            **assign_packs(of_repository, {}, profile).slots,
            **assign_packs(of_user, {}, profile).slots,
        }
