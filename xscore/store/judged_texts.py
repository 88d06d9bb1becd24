"""What a judge is shown of candidates, read from one database and checked against their hashes.

It knows one connection; `Store.texts` asks all that a turn reads.
"""

import json
import sqlite3
from collections.abc import Mapping

from xscore.platform.database import damage_if_invalid
from xscore.platform.hashing import content_hash, described_hash
from xscore.records.candidates import Candidate
from xscore.records.memory import Layer, TestView, judged_views, view_texts
from xscore.store.file_bodies import read_with_bodies
from xscore.store.memory_rows import IN_JSON_LIST
from xscore.store.memory_views import decode_views, judge_text


def read_judged_texts(
    connection: sqlite3.Connection, candidate_of: Mapping[str, Candidate], *, tests: TestView
) -> dict[str, str]:
    """Return the judged text of each memory by id; those deleted or changed since are missing.

    candidate_of: by id in this database.
    Raises StoreDamaged for a text that does not match its hash.
    """
    texts: dict[str, str] = {}
    among = (json.dumps([*candidate_of]),)
    columns = "id, layer, path, entity, status, views"
    rows = read_with_bodies(connection, columns, f"id {IN_JSON_LIST}", among)
    for identifier, layer, path, entity, status, written, _, card, text in rows:
        views = {view.name: view for view in decode_views(written)}
        judged = next(name for name in judged_views(Layer(layer), tests) if name in views)
        stored_hash = views[judged].hash
        candidate = candidate_of[identifier]
        # With its file's purpose, a memory is another content to the judge.
        if described_hash(stored_hash, candidate.purpose) != candidate.content_hash:
            continue
        with damage_if_invalid("a memory"):
            shown = judge_text(view_texts(text, card)[judged], status=status)
            if content_hash(path, entity, shown) != stored_hash:
                raise ValueError("its text does not fit its hash")
        texts[identifier] = shown
    return texts
