"""Prompts that ask for purposes, several in each, and what is kept of their replies.

A line is kept if every identifier, path and number in it is in what the model was shown, and
every word of judging; and if it gives no instructions: what a model says about text of
strangers is data as well, and a judge is shown it among others. Trade-off: a line with one name
too many is dropped whole, and not asked for again.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from math import ceil
from pathlib import Path

from xscore.extensions.batch.purpose_subjects import Subject
from xscore.platform import tokens
from xscore.platform.patterns import compiled_late
from xscore.platform.text import ellipsize, without_invisible
from xscore.platform.text_names import names_in, occurs_in
from xscore.prompts.fences import escape_attribute, escape_tags, well_formed
from xscore.prompts.judge import JudgeModel
from xscore.prompts.suspicion import is_suspicious
from xscore.records.calls import Request, Stage
from xscore.scorer.chat_replies import find_object
from xscore.store.personal_data import redact_said
from xscore.store.purposes import LINE_CHARS

PACK_CHARS, PACK_SIZE = 12_000, 20
"""Most characters of outlines, and most subjects, of one prompt."""
REPLY_TOKENS = 30.0
"""Expected output tokens for each subject, until the replies of the model are known."""
MOST_REPLY_TOKENS = 90
_FRAME_TOKENS = 60
_TAGS = "outline"
_OF_JUDGING = compiled_late(
    r"(?i)\b(?:scor(?:e|ing)|judg|rating|rank|relevan|irrelevan|prompt|instruct|candidate|memor)\w*"
)
"""Matches words by which a line speaks to the judge, unless the file speaks of such things
itself."""


def packs_of(subjects: Sequence[Subject]) -> Iterator[tuple[Subject, ...]]:
    """Yield the subjects that share a prompt."""
    pack: list[Subject] = []
    size = 0
    for subject in subjects:
        length = len(subject.source)
        if pack and (size + length > PACK_CHARS or len(pack) == PACK_SIZE):
            yield tuple(pack)
            pack = []
            size = 0
        pack.append(subject)
        size += length
    if pack:
        yield tuple(pack)


def purpose_request(subjects: Mapping[str, Subject], model: JudgeModel) -> Request:
    """Return the request for the purposes of these subjects. subjects: by id in the prompt."""
    content = "\n".join([_outline(code, subject) for code, subject in subjects.items()])
    system = _system()
    chars = tokens.size(system, content)
    ratio = model.chars_per_token
    if ratio == tokens.MIXED:
        # Nothing is known about this model yet, and outlines are code.
        ratio = tokens.PYTHON
    output_limit = _FRAME_TOKENS + MOST_REPLY_TOKENS * len(subjects) + model.reasoning_reserve
    return Request(
        stage=Stage.PURPOSE,
        model=model.name,
        system=system,
        content=(content,),
        max_output_tokens=output_limit,
        input_tokens=ceil(chars / ratio),
        reserved_input_tokens=ceil(chars / min(tokens.UPPER_BOUND_CHARS_PER_TOKEN, ratio)),
        reasoning=model.reasoning,
        temperature=model.temperature,
        candidates=len(subjects),
        timeout_s=model.timeout_s,
    )


def read_lines(reply: str, subjects: Mapping[str, Subject]) -> dict[str, str] | None:
    """Return what is kept of a reply, by id: empty where its source does not bear a line out.

    An id that the reply lacks is missing. None: it is not an object of lines.
    """
    answer = find_object(reply, scores=len(subjects))
    if answer is None or not isinstance(answer.data, dict):
        return None
    lines: dict[str, str] = {}
    for code, subject in subjects.items():
        line = answer.data.get(code)
        if isinstance(line, str):
            lines[code] = kept_line(line, subject)
    return lines or None


def kept_line(line: str, subject: Subject) -> str:
    """Return a purpose on one line, redacted; empty if it is not borne out by its source."""
    text = " ".join(without_invisible(well_formed(line)).split())
    text = redact_said(ellipsize(text, LINE_CHARS), prose=True).text
    if not text or is_suspicious(text):
        return ""
    shown = f"{subject.path}\n{subject.name}\n{subject.source}".lower()
    for name in names_in(text):
        # `HTTP` and `JSON` are words of the trade, not names of this repository.
        is_acronym = name.isalpha() and name.isupper()
        if not is_acronym and not occurs_in(name.lower(), shown):
            return ""
    if any(word.lower() not in shown for word in _OF_JUDGING.findall(text)):
        return ""
    return text


@cache
def _system() -> str:
    return Path(__file__).with_name("purpose_system.md").read_text("utf-8").strip()


def _outline(code: str, subject: Subject) -> str:
    name = f' name="{escape_attribute(subject.name)}"' if subject.name else ""
    path = escape_attribute(subject.path or ".")
    head = f'<outline id="{code}" of="{subject.key.kind}" path="{path}"{name}>'
    return f"{head}\n{escape_tags(subject.source, tags=_TAGS)}\n</outline>"
