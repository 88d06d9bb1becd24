"""The names in a task that mean a folder of the repository: "the billing service" is `svc-bill/`.

Names come from files, as the latest index run left them, and from stated entities. A turn is about
the folders that its task names, so that judges, and words, find what lies there. Nothing is
guessed: a name is in the task as it is known, word for word. Trade-off: a name of one everyday
word counts only with what it names (`core package`).
"""

import json
import sqlite3
from collections.abc import Iterable, Iterator

from xscore.platform.patterns import compiled_late
from xscore.records.memory import Kind, Layer
from xscore.store.index_rows import read_index_meta

NAMED_PLACES = "named_places"
"""Key in `worktree_meta` of names of folders, as JSON pairs of name and folder."""
MOST_WORDS = 400
"""How many words of a task are searched for names."""
LONGEST_NAME = 5
MOST_PLACES = 5
"""Most folders that a task may name."""
SHORTEST_NAME = 5
"""Fewest letters of a name of one word."""
_ENTITIES = f"""
    SELECT key, json_extract(attrs, '$.aliases'), json_extract(attrs, '$.links') FROM memory_row
    WHERE layer = '{Layer.PROJECT}' AND status = 'active' AND kind = '{Kind.ENTITY}' AND version = 0
"""
_EVERYDAY = frozenset(
    """admin agent build cache client clients common config console content corpus demo django
    docker docs engine example examples frontend backend helpers index library main metrics model
    models module package plugin plugins product project python queue react redis report scripts
    server service services shared storage store style system table tests tools types users utils
    website worker""".split()
)
"""Single words that many tasks say about anything."""


def places_in_task(connection: sqlite3.Connection, task: str) -> list[tuple[str, str]]:
    """Return the names in a task and the folders that they mean, in the order of the task."""
    folders: dict[str, dict[str, None]] = {}
    for name, place in (*_from_files(connection), *_from_entities(connection)):
        folders.setdefault(name, {})[place] = None
    if not folders:
        return []
    named: dict[str, str] = {}
    for phrase in _phrases(task):
        for place in folders.get(phrase, ()):
            named.setdefault(place, phrase)
    return [(name, place) for place, name in named.items()][:MOST_PLACES]


def _from_files(connection: sqlite3.Connection) -> Iterable[tuple[str, str]]:
    written = read_index_meta(connection, NAMED_PLACES)
    if not written:
        return ()
    try:
        return [(str(name), str(place)) for name, place in json.loads(written)]
    except (ValueError, TypeError):
        # The next index run that changes something writes it again.
        return ()


def _from_entities(connection: sqlite3.Connection) -> Iterator[tuple[str, str]]:
    """Yield the key and the aliases of each stated entity, with each folder or file that it links
    to."""
    for key, aliases, links in connection.execute(_ENTITIES).fetchall():
        names = [key, *json.loads(aliases or "[]")]
        # A link may be an address or the id of a memory, too.
        places = [link for link in json.loads(links or "[]") if not _NO_PLACE.match(link)]
        for link in places:
            for name in names:
                yield " ".join(_words(str(name))), str(link)


def _phrases(task: str) -> Iterator[str]:
    """Yield every run of words that may be a name, the longest at a place first."""
    words = _words(task)[:MOST_WORDS]
    for start in range(len(words)):
        for size in range(LONGEST_NAME, 0, -1):
            phrase = words[start : start + size]
            if len(phrase) < size:
                continue
            if size == 1 and (len(phrase[0]) < SHORTEST_NAME or phrase[0] in _EVERYDAY):
                continue
            yield " ".join(phrase)


def _words(text: str) -> list[str]:
    """Return the words of a text in lower case, also those within a name."""
    return [word.lower() for word in _WORD.findall(text)]


_NO_PLACE = compiled_late(r"[a-z][\w+.-]*:|m_[0-9a-f]{8,20}\Z|/|\.\.")
_WORD = compiled_late(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])|[^\W_a-zA-Z0-9]+")
