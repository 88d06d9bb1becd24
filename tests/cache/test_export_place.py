"""Where an export may stand, and what is said of a key that is missing."""

from pathlib import Path
from sqlite3 import Connection

import polars as pl
import pytest

from tests.cache.conftest import JUDGE, judgments
from xscore.cache.judgments import Judgments
from xscore.extensions.exchange.cache_files import ExportFilter, export_judgments, import_judgments
from xscore.extensions.exchange.cache_signature import ExchangeKey
from xscore.platform.errors import StoreUntrusted, UsageError

KEY = ExchangeKey(bytes(range(32)))
OTHER = ExchangeKey(bytes(range(1, 33)))


def test_a_file_of_another_kind_stays(connection: Connection, tmp_path: Path) -> None:
    """A text and someone's Parquet are refused and left as they are; an export is replaced, whoever signed it."""
    Judgments(connection).write("0" * 32, JUDGE, judgments(0, 3))
    text, table, own = (tmp_path / name for name in ("q.jsonl", "sales.parquet", "cache.parquet"))
    text.write_text('{"id": "q1", "task": "why"}\n')
    pl.DataFrame({"a": [1]}).write_parquet(table)
    for place in (text, table):
        before = place.read_bytes()
        with pytest.raises(UsageError, match="was not written by"):
            export_judgments(connection, place, KEY, ExportFilter())
        assert place.read_bytes() == before
    export_judgments(connection, own, OTHER, ExportFilter())
    assert export_judgments(connection, own, KEY, ExportFilter()).judgments == 3


def test_who_imports_is_sent_to_the_key_of_the_file(connection: Connection, tmp_path: Path) -> None:
    """A new key would fit no file, so none is advised."""
    Judgments(connection).write("0" * 32, JUDGE, judgments(0, 3))
    file = tmp_path / "cache.parquet"
    export_judgments(connection, file, OTHER, ExportFilter())
    for key, kind in ((None, UsageError), (KEY, StoreUntrusted)):
        with pytest.raises(kind) as refused:
            import_judgments(connection, file, key, folder=tmp_path, reason=str)
        assert "exported with" in refused.value.hint and "cache key`" not in refused.value.hint
