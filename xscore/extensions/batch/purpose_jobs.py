"""Purposes by the vendor's Batch API: a job whose requests ask for purposes instead of scores.

Everything about batches, kills, caps and dollars is that of any job (`machine`); only what a
request says and what is kept of its reply is here. Trade-off: a subject that is edited between
sending and fetching keeps no line: nothing tells whether its names were in what was shown.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property

from xscore.extensions.batch import batch_rows, job_rows
from xscore.extensions.batch.collecting import ResultChunk, ResultCollector, failure_cause
from xscore.extensions.batch.job_rows import BatchJob, RequestName
from xscore.extensions.batch.purpose_prompts import purpose_request, read_lines
from xscore.extensions.batch.purpose_subjects import (
    Subject,
    SubjectPlace,
    all_places,
    read_subjects,
)
from xscore.extensions.batch.records import Batch, BatchResult, RequestOutcome
from xscore.extensions.batch.sending import BatchRenderer, with_stored_pieces
from xscore.platform.hashing import digest
from xscore.records.calls import Request
from xscore.scorer.repair import MemoryPiece, PackPrompt
from xscore.store.purposes import Purpose, PurposeKey, PurposeKind, save_purposes

PROMPT_KEY = digest("purposes", "1")
"""Key of the prompt by which a job was planned."""
_ONLY_QUESTION = 0
_UNREADABLE = "unreadable: no line could be read"
_REFUSED = "refused: the model or its host declined"


class PurposeRenderer(BatchRenderer):
    """Makes the inputs of a job's batches."""

    @classmethod
    def judge_of(cls, job: BatchJob) -> str:
        """Return the name of the prompt."""
        return PROMPT_KEY

    @property
    def turns(self) -> Mapping[int, str]:
        """One question, the same for all."""
        return {_ONLY_QUESTION: "purposes"}

    def request_of(self, prompt: PackPrompt, turn_text: str) -> Request:
        """Return the request for the purposes of a prompt's subjects."""
        return purpose_request(subjects_by_code(prompt.pieces), self._builder.model)

    def with_texts(self, prompts: Mapping[int, PackPrompt]) -> dict[int, PackPrompt]:
        """Return these prompts with the outlines of their subjects that are unchanged."""
        names: dict[str, None] = {}
        for prompt in prompts.values():
            names.update(dict.fromkeys(piece.content_hash for piece in prompt.pieces))
        places = [self._places[name] for name in names if name in self._places]
        parts = {}
        for subject in read_subjects(self._store, places):
            part = part_of(subject)
            parts[part.content_hash] = part
        return with_stored_pieces(prompts, parts)

    @cached_property
    def _places(self) -> dict[str, SubjectPlace]:
        return {name_of(key): place for key, place in all_places(self._store).items()}


class PurposeCollector(ResultCollector):
    """Stores the purposes of a job's batches."""

    def enter_results(self, batch: Batch, chunk: ResultChunk) -> None:
        """Keep the lines of these results and enter what they cost, in one transaction."""
        job = self.context.job
        store = self.context.store
        numbers = {number for (_, number), _ in chunk}
        prompts = job_rows.read_prompts(self.context.connection, job.id, numbers)
        shown = PurposeRenderer(store, self._host, job).with_texts(prompts)
        answered: list[RequestName] = []
        lost: dict[RequestName, str] = {}
        to_replan: dict[RequestName, str] = {}
        purposes: list[Purpose] = []
        for name, result in chunk:
            written = _purposes_in(result, shown[name[1]], writer=job.judge_spec)
            purposes += written
            if written:
                answered.append(name)
            elif result.completion is not None or result.is_charged:
                lost[name] = _UNREADABLE
            elif result.outcome is RequestOutcome.REFUSED:
                lost[name] = f"{_REFUSED} ({result.detail})" if result.detail else _REFUSED
            else:
                to_replan[name] = failure_cause(result)
        with self.context.transaction() as connection:
            self.enter_costs(connection, batch, chunk, prompts)
            save_purposes(connection, purposes, now=self.context.clock())
            batch_rows.mark_answered(connection, job.id, answered)
            batch_rows.lose_requests(connection, job.id, lost)
            batch_rows.replan_requests(connection, job.id, to_replan)


def part_of(subject: Subject) -> MemoryPiece:
    """Return a subject as a piece of a prompt."""
    name = name_of(subject.key)
    return MemoryPiece(name, subject.key.kind, subject.path, subject.name, subject.source, name)


def name_of(key: PurposeKey) -> str:
    """Return what names a subject among the pieces of a prompt."""
    return f"{key.kind}:{key.content}"


def subjects_by_code(pieces: Sequence[MemoryPiece]) -> dict[str, Subject]:
    """Return the subjects of a prompt by their ids in it, which are their places.

    One whose outline is no longer stored is left out.
    """
    subjects: dict[str, Subject] = {}
    for place, piece in enumerate(pieces, start=1):
        if piece.kind:
            kind, _, content = piece.content_hash.partition(":")
            key = PurposeKey(PurposeKind(kind), content)
            subjects[str(place)] = Subject(
                key=key, path=piece.path, name=piece.entity, source=piece.text
            )
    return subjects


def _purposes_in(result: BatchResult, prompt: PackPrompt, *, writer: str) -> list[Purpose]:
    """Return what is kept of a result: an empty line too, which is not asked for again."""
    if result.completion is None:
        return []
    subjects = subjects_by_code(prompt.pieces)
    return purposes_of(
        read_lines(result.completion.text, subjects) or {}, subjects, writer=writer
    )


def purposes_of(
    lines: Mapping[str, str], subjects: Mapping[str, Subject], *, writer: str
) -> list[Purpose]:
    """Return the purposes of these lines, by their ids."""
    purposes: list[Purpose] = []
    for code, line in lines.items():
        subject = subjects[code]
        purposes.append(Purpose(key=subject.key, path=subject.path, line=line, writer=writer))
    return purposes
