"""Says, where a turn found nothing, that what its task needs may lie outside of the repository.

It fetches nothing and calls no host: one line names `xscore fetch`. Four signs count: an address, a
version newer than a manifest allows, a question for news, and one about the interface of something
that nothing here names. Trade-off: most tasks that find nothing are about the code all the same, so
a sign has to be plain; silence is not a sign that all is here.
"""

import re

from xscore.platform.errors import ExitCode
from xscore.platform.text import ellipsize, one_line
from xscore.records.judgment import PlacedBy
from xscore.records.receipt import Answer
from xscore.scorer.term_hits import entries_of
from xscore.store.document_rows import stored_documents
from xscore.store.drift import DriftCheck
from xscore.store.named_things import NamedKind, named_things
from xscore.store.store import Store
from xscore.store.term_vectors import split_word

TASK_CHARS = 4_000
"""How many characters of a task are looked at."""
SHOWN_CHARS = 120
MOST_NAMES = 8
_ADDRESS = re.compile(r"https://[^\s<>\"'`)\]]{3,2000}")
_NEWS = re.compile(
    r"(?i)\bCVE-\d{4}-\d{3,7}\b"
    r"|\b(?:latest|newest|upcoming|most recent) (?:stable )?"
    r"(?:version|release|news|announcement|docs|documentation|advisor(?:y|ies))\b"
    r"|\brelease notes (?:of|for)\b|\bend[ -]of[ -]life\b|\bnews (?:about|on|of)\b"
    r"|\bannounced (?:this|last) (?:week|month|year)\b"
)
_NAME = re.compile(r"(?<![\w./`@-])(?=[A-Z]+[a-z0-9])[A-Z][A-Za-z0-9]{2,30}\b(?![(/_])")
"""Matches a name, but not letters alone that abbreviate words, such as REST."""
_OF_OTHERS = re.compile(
    r"(?i)\b(?:rest api|api (?:docs|documentation|reference|limits?)|rate limits? of"
    r"|webhooks? (?:of|from)|specification|official (?:docs|documentation|guide)"
    r"|terms of service|pricing|rfc ?\d{3,5}"
    r"|according to (?:the )?(?:docs|documentation|manual|spec))\b"
)
_NUMBERS = re.compile(r"\d+(?:\.\d+)*")


def outside_hint(store: Store, answer: Answer) -> str:
    """Return the line that says what could be fetched, for a turn that judged all and in which
    nothing reached the threshold; empty: for another turn, or nothing says that it would help."""
    if _found_little(answer):
        return suggest_outside(store, answer.task)
    return ""


def _found_little(answer: Answer) -> bool:
    is_whole = answer.coverage.unjudged == 0 and answer.exit_code in (
        ExitCode.DONE,
        ExitCode.PARTLY,
    )
    return is_whole and not any(
        memory.placed_by == PlacedBy.THRESHOLD for memory in answer.selected
    )


def suggest_outside(store: Store, task: str) -> str:
    """Return the line that says what could be fetched; empty if nothing says that it would
    help."""
    text = task[:TASK_CHARS]
    address = _unfetched_address(store, text)
    if address:
        return f"The task names {address}, which is not here: `xscore fetch` reads it."
    version = _newer_version(store, text)
    if version:
        return f"{version}: `xscore fetch URL` reads what is new in it."
    if _NEWS.search(text):
        return (
            "The task asks for news, which no repository has: `xscore fetch URL` reads a page."
        )
    if _OF_OTHERS.search(text):
        name = _unknown_name(store, text)
        if name:
            return f"Nothing here names {name}: `xscore fetch URL` reads its documentation."
    return ""


def _unfetched_address(store: Store, text: str) -> str:
    match = _ADDRESS.search(text)
    if match is None:
        return ""
    address = match[0].rstrip(".,;:!?").partition("#")[0]
    places = {document.place for document in stored_documents(store.connection)}
    if address in places:
        return ""
    return ellipsize(one_line(address), SHOWN_CHARS)


def _newer_version(store: Store, text: str) -> str:
    """Return what to say about a version in the task that is newer than the manifests allow."""
    versions = [thing for thing in named_things(text) if thing.kind is NamedKind.VERSION]
    if not versions:
        return ""
    for gone in DriftCheck(store.connection, store.root).gone(versions):
        numbers = [_parts(number) for number in _NUMBERS.findall(gone.instead)]
        if numbers and _parts(gone.thing.version) > max(numbers):
            name = ellipsize(one_line(gone.thing.name), SHOWN_CHARS)
            required = ellipsize(one_line(gone.instead), SHOWN_CHARS)
            return (
                f"The task names {name} {gone.thing.version}, but {required} is required here"
            )
    return ""


def _parts(number: str) -> tuple[int, ...]:
    return tuple(int(part) for part in number.split("."))


def _unknown_name(store: Store, text: str) -> str:
    """Return the first name in a task that no memory has a word of; empty if there is none."""
    terms_of_name: dict[str, set[int]] = {}
    for match in _NAME.finditer(text):
        if not _begins_sentence(text[: match.start()]) and len(terms_of_name) < MOST_NAMES:
            terms_of_name[match[0]] = {term for _, term in split_word(match[0])}
    if terms_of_name:
        hashes = sorted(set().union(*terms_of_name.values()))
    else:
        hashes = []
    if not hashes:
        return ""
    vectors = b"".join(vector for _, vector in store.term_vectors())
    present = {hashes[number] for _, number, _, _ in entries_of(vectors, hashes)}
    for name, terms in terms_of_name.items():
        if terms and terms.isdisjoint(present):
            return name
    return ""


def _begins_sentence(before: str) -> bool:
    """Return whether a word after this text is the first of its sentence or line."""
    words_before = before.rstrip()
    is_new_line = "\n" in before[len(words_before) :]
    ends_sentence = words_before.endswith((".", "!", "?", ":"))
    return is_new_line or ends_sentence or not before.rstrip(" \"'(")
