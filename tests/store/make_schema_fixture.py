"""Write the fixture of the schema that this tree has: its SQL, and a store's and a user's store's
rows in every table.

    python -m tests.store.make_schema_fixture

Run it before you change `schema.sql`: the files `tests/store/schemas/<number>.*` then stay as they
are for ever. The package itself writes what one index run, one judged turn and a few statements
write; every table that is still empty gets a row by SQL. `--digest` only writes down what
schema.sql is today, for a number that no release has had.
"""

import asyncio
import hashlib
import json
import re
import sqlite3
import sys
import tempfile
from collections.abc import Iterable
from contextlib import closing
from decimal import Decimal
from pathlib import Path

from tests.conftest import commit_all, write_files
from tests.servers.openai_server import OpenAIServer
from tests.statements import decide, prefer, say
from xscore.cache.judgment_store import keep_untrusted
from xscore.pipeline.build import Pipeline
from xscore.platform.hashing import row_checksum
from xscore.platform.paths import find_root
from xscore.records.memory import Kind
from xscore.records.turn import Turn
from xscore.settings import (
    BudgetSettings,
    JudgeSettings,
    OpenAISettings,
    PrimarySettings,
    Settings,
    StoreSettings,
    validate_group,
)
from xscore.store.checkpoints import save_checkpoint
from xscore.store.citing import parse_citation
from xscore.store.failures import record_failure
from xscore.store.opening import SCHEMA
from xscore.store.store import Store

FOLDER = Path(__file__).with_name("schemas")
DIGESTS = FOLDER / "digests.json"
FILES = {
    "heron.py": 'def nest(eggs: int) -> int:\n    """Count the eggs."""\n    return eggs\n',
    "README.md": "# Birds\n",
}
TASK = "count the eggs of the heron"
NOW = 1_790_000_000.0
JOB, PLAN, CONTEXT, PIECES = "b_job", "{}", "{}", "[]"
BY_HAND = {
    "vec": ["(1, '{memory}', 'openai/small', x'00')"],
    "sign_block": ["(0, 'openai/small', 64, x'')"],
    "complete_embedder": ["('openai/small')"],
    "vector_copy": ["('{memory}', 'openai/small', 'Qdrant in /q', 1, 0)"],
    "untrusted_score": [],
    "runner": ["('r_gone', 1, 'elsewhere', 1.0)"],
    "claim": ["(1, 'c_gone', 'r_gone')"],
    "reservation": ["('v_old', 't_old', '2026-11-22', '', 1.0, 5)"],
    "spending": ["('repository', 7)"],
    "capability": ["('openai', 'h', 'm', '{{}}', 1.0)"],
    "chars_per_token": ["('openai', 'h', 'm', 4.0, 1.0)"],
    "session_file": ["('~/s.jsonl', 'codex', 9, 9, 1, 0.0, '', 1.0)"],
    "erased_memory": ["('m_{zeros}', 1.0)"],
    "muted_key": ["('indent', 1.0)"],
    "project": ["('p_one', 1.0)"],
    "observation": ["('p_one', 'indent', 'preference', 'spaces', 1.0)"],
    "repository_map": ["('g_one', '{{}}')"],
    "evaluation": ["('v_one', 1.0, 'q', 'lexical', 1, 15, 0.5, 0.5, 1.0, 1.0, 0.5, 3, 0)"],
    "calibration": ["('j', '{{}}', 1.0)"],
    "compressed_session": ["('codex-one', 'codex', '~/s.jsonl', 900, 'fix it', 1.0)"],
    "session_turn": ["('codex-one', 1, 'm_{zeros}', 'current', 0)"],
    "turn_summary": ["('h_one', 'codex-one', 'It was fixed.', 1.0)"],
    "purpose": ["('file', 'h_one', 'heron.py', 'Counts eggs.', 'openai:m', 1.0)"],
    "job": [
        f"('{JOB}', 1.0, 'submit', 'q', 'openai:m', 'j', '{{{{}}}}',"
        f" {row_checksum(JOB, 'j', PLAN)}, 9, 1, 0, NULL, '', NULL)"
    ],
    "job_question": [
        f"('{JOB}', 0, 'one', '{{{{}}}}', 'k', {row_checksum(JOB, '0', CONTEXT, 'k')})"
    ],
    "job_ask": [f"('{JOB}', 0, 'p', 0, 0, '[]', {row_checksum(JOB, '0', 'p', PIECES)})"],
    "job_request": [f"('{JOB}', 0, 0, 1, 'sent', '', 1)"],
    "batch": [
        f"('{JOB}', 1, 'tok', 'created', 1.0, 'batch_1', 'in_progress', 2.0, 1, 10, 10, '')"
    ],
    "stale_memory": ["('{memory}', 1)"],
    "occurrence": ["('o_one', '{memory}', '')"],
    "checkpoint": ["('c', 1.0, '{{}}')"],
    "unpacked_version": ["(900, 0)"],
}
"""Rows of tables that no part of the package filled."""


def main() -> None:
    """Write the files."""
    FOLDER.mkdir(exist_ok=True)
    _write_digest()
    if "--digest" in sys.argv:
        return
    number = SCHEMA.version
    (FOLDER / f"{number}.sql").write_bytes(SCHEMA.file.read_bytes())
    with tempfile.TemporaryDirectory() as name, OpenAIServer() as server:
        root, users = Path(name) / "birds", Path(name) / "user"
        root.mkdir()
        write_files(root, FILES)
        commit_all(root)
        _fill(root, users, server)
        for database, kind in (
            (find_root(root).store_file, "repository"),
            (users / "user.db", "user"),
        ):
            with closing(sqlite3.connect(database)) as connection:
                if kind == "repository":
                    _fill_by_hand(connection)
                (FOLDER / f"{number}.{kind}.sql").write_text(
                    "".join(_rows(connection)), "utf-8"
                )


def schema_digest(text: str) -> str:
    """Name a schema's SQL by what it creates: comments and spaces do not count."""
    return hashlib.sha256(" ".join(re.sub(r"--[^\n]*", "", text).split()).encode()).hexdigest()[
        :32
    ]


def _write_digest() -> None:
    digests = json.loads(DIGESTS.read_text("utf-8")) if DIGESTS.exists() else {}
    digests[str(SCHEMA.version)] = schema_digest(SCHEMA.file.read_text("utf-8"))
    DIGESTS.write_text(json.dumps(digests, indent=2) + "\n", "utf-8")


def _fill(root: Path, users: Path, server: OpenAIServer) -> None:
    """Use the store as a person would: index, state, ask, save."""
    settings = Settings(
        judge=validate_group(
            JudgeSettings, {"model": "openai:judge-2", "probe": False, "reasons": "all"}
        ),
        primary=PrimarySettings(model="openai:strong-1"),
        openai=OpenAISettings(base_url=server.url),
        budget=BudgetSettings(max_usd=Decimal(1)),
        store=StoreSettings(user_data_dir=users),
    )

    async def turns() -> None:
        async with Pipeline.open(root, settings, clock=lambda: NOW) as pipeline:
            await pipeline.index()
            _state(pipeline.store)
            await pipeline.ask(Turn(task=TASK, thread="s_birds"), answer=True)

    asyncio.run(turns())
    with Store.open_with(find_root(root), settings, create=False, clock=lambda: NOW) as store:
        save_checkpoint(store.connection, "friday", thread="s_birds", notes=("eggs",), now=NOW)
        keep_untrusted(store.connection, ("k" * 32, "j" * 32, 0), [("c" * 32, 0.9)])
        user_store = store.user_connection(create=True)
        assert user_store is not None
        user_store.execute("INSERT INTO project VALUES ('p_one', 1.0)")
        user_store.execute(
            "INSERT INTO observation VALUES ('p_one', 'indent', 'preference', 'spaces', 1.0)"
        )


def _state(store: Store) -> None:
    cited = parse_citation(store.root, "heron.py:1-3", connection=store.connection)
    decide(store, "Herons are counted by `nest`.", because="eggs break", citations=[cited])
    say(store, "The nest of heron.py holds eggs, never chicks.", kind=Kind.CONVENTION)
    say(store, "We name birds in English.", key="names")
    say(store, "We name birds in Latin.", key="names")
    prefer(store, "indent", "four spaces")
    record_failure(
        store, text="ValueError: an egg is no int\n  heron.py:3", occurrence="o_first"
    )


def _fill_by_hand(connection: sqlite3.Connection) -> None:
    (memory,) = connection.execute(
        "SELECT id FROM memory WHERE source <> 'index' ORDER BY id"
    ).fetchone()
    for table, rows in BY_HAND.items():
        if not connection.execute(f"SELECT 1 FROM {table}").fetchone():
            for row in rows:
                connection.execute(
                    f"INSERT INTO {table} VALUES {row.format(memory=memory, zeros='0' * 20)}"
                )
    # Numbers of rows that were deleted.
    connection.execute("UPDATE sqlite_sequence SET seq = seq + 500")
    connection.commit()
    empty = [
        name
        for name in _tables(connection)
        if not connection.execute(f"SELECT 1 FROM {name}").fetchone()
    ]
    assert not empty, f"without a row: {empty}"


def _tables(connection: sqlite3.Connection) -> list[str]:
    named = (
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT GLOB 'sqlite_*' ORDER BY"
        " rowid"
    )
    return [name for (name,) in connection.execute(named)]


def _rows(connection: sqlite3.Connection) -> Iterable[str]:
    """Yield each row as a statement."""
    for table in (*_tables(connection), "sqlite_sequence"):
        columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
        if table == "sqlite_sequence":
            yield "DELETE FROM sqlite_sequence;\n"  # the rows before have counted
        quoted = ", ".join(f"quote({name})" for name in columns)
        for row in connection.execute(f"SELECT {quoted} FROM {table}"):
            yield f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join(row)});\n"


if __name__ == "__main__":
    main()
