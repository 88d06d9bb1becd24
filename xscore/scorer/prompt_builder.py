"""Turn packs into requests, byte for byte, with their output limits. Pure.

Estimates and the judge both use it, so the estimate is for exactly what is sent. Each memory of a
prompt gets a two-letter code. Codes are sorted, then rotated by an offset derived from the store's
secret and the pack: text inside a memory cannot guess another's code, and the same pack renders to
the same bytes in every turn. A code is one token and never a common word. A decision model's
request has no packs: `decision_layout` makes it, and reads a predicate's probability as the score
and a rating as the expected middle of its band (`parse_answers`); levels that do not add up to 1
are void.
"""

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from hashlib import blake2b

from msgspec import Struct

from xscore.platform import tokens
from xscore.prompts.judge import (
    LEVELS,
    JudgeModel,
    PackEntry,
    PromptOptions,
    decision_request,
    judging_request,
    question_names,
)
from xscore.prompts.rubric import CODE_RUBRIC, Rubric
from xscore.prompts.suspicion import is_suspicious
from xscore.prompts.turn_text import PROMPT_VERSION
from xscore.records.calls import DECLINED, DecisionForm, Request
from xscore.records.judgment import DECISION_ORDER, JudgeIdentity
from xscore.scorer.chat_replies import parse_reply
from xscore.scorer.judge import Texts
from xscore.scorer.packs import Pack, PackProfile
from xscore.scorer.repair import MemoryPiece, PackPrompt, RepairRung, memory_pieces
from xscore.scorer.replies import ParsedReply


class PromptLayout(Struct, frozen=True):
    """How a prompt is rendered and its reply parsed."""

    version: str
    render: Callable[[Sequence[PackEntry], str, PromptOptions], Request]
    """Makes a request of entries, a rendered turn and the options."""
    read: Callable[[str, Collection[str]], ParsedReply]
    """Reads a reply, given the codes of its prompt."""
    only_order: str = ""
    """The only order it supports; empty: the model's."""
    name_questions: Callable[[int], tuple[str, ...]] | None = None
    """Returns the names of a number of independent questions; None: memories share a prompt and
    get rotated codes."""
    system: Callable[[], str] = CODE_RUBRIC.text
    """Returns the text that every request repeats in addition to the turn."""
    statement: Callable[[], str] = str
    """Returns the text that the question about each memory repeats; empty: memories share
    one."""
    turn_chars: int | None = None
    """The longest turn that it shows whole."""

    @property
    def is_independent(self) -> bool:
        """Whether a memory's score depends on nothing else in its request."""
        return self.name_questions is not None


ONE_TURN_LAYOUT = PromptLayout(PROMPT_VERSION, judging_request, parse_reply)


# fmt: off
PROMPT_CODES: tuple[str, ...] = (
    "ka", "qe", "bi", "co", "du", "fe", "ga", "hu", "ji", "po", "ra", "te",
    "vo", "wi", "xu", "za", "ke", "qi", "bo", "cu", "de", "fi", "gu", "jo",
    "ta", "pe", "ri", "va", "wu", "xo", "ze", "ba", "ki", "qu", "fo", "ca",
    "di", "ge", "ju", "ro", "tu", "ve", "pu", "wa", "zi", "xa", "ko", "bu",
    "ce", "qa", "fu", "gi", "zo", "je", "ru", "xe", "vu", "ci", "ku", "zu",
)
# fmt: on


def rotated_codes(size: int, *, secret: bytes, pack: str) -> tuple[str, ...]:
    """Return the codes of slots 0..size-1 of this pack: sorted, and rotated by a keyed number of
    places.

    A decoder that a schema constrains answers in the order of the schema, which is the alphabet: so
    it answers in the order in which it reads, except at one place. Raises ValueError beyond the
    codebook, which also bounds the size of a pack.
    """
    if not 0 <= size <= len(PROMPT_CODES):
        raise ValueError(f"a pack holds 0..{len(PROMPT_CODES)} memories, not {size}")
    key = blake2b(secret, digest_size=32).digest()
    number = int.from_bytes(blake2b(pack.encode(), key=key, digest_size=16).digest())
    first = number % max(1, size)
    codes = sorted(PROMPT_CODES[:size])
    return tuple(codes[first:] + codes[:first])


MOST_FRAME_TOKENS = 40
"""Most tokens of a reply's braces and names; `tokens.REPLY_FRAME` is typical."""
SCORE_TOKENS = 8
"""Most tokens of one score."""
SCORE_USUAL_TOKENS = 5
REASON_TOKENS = 32
"""Most tokens of one reason of 15 words, with its code."""
LEAST_OUTPUT_TOKENS = 256
LEAST_ALONE_TOKENS = 1_024
"""Fewest tokens on the last rung, for a model that always thinks aloud."""
EXPECTED_REASONS = 0.1
"""Share of memories that get a reason, rounded up: of 8,556 judged in trials, about 6 % scored 10
or more."""


class PromptBuilder(Struct, frozen=True):
    """Everything that shapes a prompt except the turn and the memories."""

    model: JudgeModel
    profile: PackProfile
    secret: bytes
    """Secret of the store, which decides the codes of each pack."""
    reasons_from: float = 0.3
    layout: PromptLayout = ONE_TURN_LAYOUT
    isolates: bool = True
    """Whether a memory that gives instructions to its judge has a prompt of its own; False only
    to measure what that is good for."""

    @property
    def order(self) -> str:
        """`memory_first` or `turn_first`."""
        return self.layout.only_order or self.model.order

    def identity(self, *, provider: str, host: str) -> JudgeIdentity:
        """Return the identity of the judge: everything that may change its scores."""
        model = self.model
        packed = not self.profile.is_plain
        name = model.answered_by or model.name
        return JudgeIdentity(
            provider, host, name, model.reasoning, self.layout.version, self.order, packed
        )

    def pieces_of(self, pack: Pack, texts: Mapping[str, str]) -> tuple[MemoryPiece, ...]:
        """Return the pieces of a pack's members; members without a text (deleted meanwhile) are
        skipped."""
        pieces: list[MemoryPiece] = []
        for member in pack.members:
            if member.id in texts:
                pieces.extend(
                    memory_pieces(member, texts[member.id], max_tokens=self.profile.longest)
                )
        return tuple(pieces)

    def prompts_of(self, pack: Pack, todo: Sequence[MemoryPiece]) -> list[PackPrompt]:
        """Return the prompts of a pack: one for whole memories, one per part of a split memory, and
        one for each that gives instructions to its judge, which must not speak for others."""
        together: list[MemoryPiece] = []
        apart: list[MemoryPiece] = []
        for piece in todo:
            (apart if piece.is_part or self._is_apart(pack, piece) else together).append(piece)
        prompts: list[PackPrompt] = []
        if together:
            name = pack.id or together[0].content_hash[:16]
            whole_memories = sum(not piece.is_part for piece in todo)
            is_all = pack.is_lasting and whole_memories == len(pack.members)
            prompts.append(PackPrompt(name, tuple(together), is_lasting=is_all))
        for piece in apart:
            name = f"w_{piece.content_hash[:16]}"
            prompts.append(PackPrompt(name, (piece,), is_lasting=pack.is_lasting))
        return prompts

    def _is_apart(self, pack: Pack, piece: MemoryPiece) -> bool:
        """Whether a memory of several has a prompt of its own for what it says."""
        is_shared = len(pack.members) > 1 and not self.layout.is_independent
        if not (self.isolates and is_shared):
            return False
        # A purpose was read when it was written, perhaps by an earlier list of forms.
        return is_suspicious(piece.text) or is_suspicious(piece.purpose)

    def first_requests(
        self, packs: Iterable[Pack], turn_text: str, texts: Texts
    ) -> Iterator[Request]:
        """Yield the first requests for these packs, in order. texts: as `Judge` loads them."""
        for pack in packs:
            for prompt in self.prompts_of(pack, self.pieces_of(pack, texts(pack.members))):
                yield self.request(prompt, turn_text)[0]

    def request(self, prompt: PackPrompt, turn_text: str) -> tuple[Request, tuple[str, ...]]:
        """Render a prompt; return the request and the code of each piece."""
        entries = self.entries(prompt)
        request = self.layout.render(
            entries, turn_text, self.options(prompt, max_output_tokens=self.output_cap(prompt))
        )
        return request, tuple(entry.code for entry in entries)

    def options(self, prompt: PackPrompt, *, max_output_tokens: int) -> PromptOptions:
        """Return the options of the request for a prompt."""
        return PromptOptions(
            self.model,
            max_output_tokens,
            reasons_from=self.reasons_from,
            cache_key=prompt.pack,
            is_lasting=prompt.is_lasting,
        )

    def entries(self, prompt: PackPrompt) -> list[PackEntry]:
        """Return the pieces with their codes, as the prompt shows them."""
        count = len(prompt.pieces)
        if self.layout.name_questions is not None:
            codes = self.layout.name_questions(count)
        else:
            codes = rotated_codes(count, secret=self.secret, pack=prompt.pack)
        entries: list[PackEntry] = []
        for code, piece in zip(codes, prompt.pieces, strict=True):
            entries.append(
                PackEntry(code, piece.kind, piece.path, piece.entity, piece.text, piece.purpose)
            )
        return entries

    def output_cap(self, prompt: PackPrompt) -> int:
        """Return the output limit: every code scored and explained, plus the model's reasoning."""
        reply = MOST_FRAME_TOKENS + (SCORE_TOKENS + REASON_TOKENS) * len(prompt.pieces)
        least = LEAST_ALONE_TOKENS if prompt.rung is RepairRung.ALONE else LEAST_OUTPUT_TOKENS
        cap = max(least, reply) + self.model.reasoning_reserve
        if self.model.max_output_tokens is None:
            return cap
        return min(cap, self.model.max_output_tokens)

    def expected_output(self, count: int) -> int:
        """Return the expected reply tokens for `count` memories; reasoning counts only if past
        replies had it."""
        if self.layout.is_independent:
            return 0  # probabilities are not text
        share = 1.0 if self.reasons_from <= 0 else EXPECTED_REASONS
        tokens_per_memory = (
            self.model.reply_tokens or SCORE_USUAL_TOKENS + share * REASON_TOKENS
        )
        return round(tokens.REPLY_FRAME + tokens_per_memory * count)


SUM_TOLERANCE = 0.02
"""How much the sum of the levels' probabilities may differ from 1; hosts round them."""
SCORE_DIGITS = 4


def parse_answers(text: str, ids: Collection[str]) -> ParsedReply:
    """Read the answers to these questions. Every other name, and every value in doubt, is void."""
    answers = json.loads(text)
    scores: dict[str, float] = {}
    refused = set()
    void = 0
    for name in ids:
        value = answers.get(name)
        if value == DECLINED:
            refused.add(name)
        elif (score := _score(value)) is not None:
            scores[name] = score
        elif name in answers:
            void += 1
    foreign = len(answers.keys() - set(ids))
    return ParsedReply(scores, {}, foreign=foreign, void=void, refused=frozenset(refused))


def _score(value: object) -> float | None:
    """Return 0..100; None: no score."""
    if isinstance(value, list):
        if abs(sum(value) - 1) > SUM_TOLERANCE:
            return None
        weighted = 0.0
        for share, (_, middle) in zip(value, LEVELS, strict=True):
            weighted += share * middle
        value = weighted / sum(value)
    if isinstance(value, int | float):
        return round(100 * value, SCORE_DIGITS - 2)
    return None


def chat_layout(rubric: Rubric) -> PromptLayout:
    """Return how chat prompts with this rubric are made and read."""
    return PromptLayout(
        rubric.version(),
        partial(judging_request, rubric=rubric),
        parse_reply,
        system=rubric.text,
    )


def decision_layout(
    form: DecisionForm, turn_chars: int, rubric: Rubric = CODE_RUBRIC
) -> PromptLayout:
    """Return how requests of this form are made and read. turn_chars: a longer turn is shortened in
    the middle."""
    return PromptLayout(
        version=rubric.version(form),
        render=partial(decision_request, form=form, turn_chars=turn_chars, rubric=rubric),
        turn_chars=turn_chars,
        read=parse_answers,
        only_order=DECISION_ORDER,
        name_questions=question_names,
        system=partial(rubric.text, form),
        statement=partial(rubric.statement, form),
    )
