"""Where results may stand: no file of another kind is overwritten."""

from pathlib import Path

import polars as pl
import pytest

from xscore.extensions.batch.results import ResultRow, check_results_path, write_results
from xscore.platform.errors import UsageError

ROW = ResultRow("q", 1, "a.py", "f", "m", 0.9, 0.9, "")


@pytest.mark.parametrize("name", ["r.jsonl", "r.parquet"])
@pytest.mark.parametrize("rows", [[], [ROW]])
def test_earlier_results_may_be_written_anew(name: str, rows: list[ResultRow], tmp_path: Path) -> None:
    """Also those of a list for which nothing was chosen."""
    write_results(tmp_path / name, rows)
    check_results_path(tmp_path / name, store_dir=tmp_path / "store")


def test_a_file_of_another_kind_stays(tmp_path: Path) -> None:
    """Questions, someone's lines or table, what is broken: none is a place for results."""
    pl.DataFrame({"a": [1]}).write_parquet(tmp_path / "sales.parquet")
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 and no more")
    (tmp_path / "q.jsonl").write_text('{"id": "q1", "task": "why"}\n')
    (tmp_path / "log.jsonl").write_text('{"at": 1}\n')
    (tmp_path / "text.jsonl").write_text("words\n")
    (tmp_path / "bytes.jsonl").write_bytes(b"\xff\xfe\n")
    for path in list(tmp_path.iterdir()):
        with pytest.raises(UsageError, match="is there and holds no results"):
            check_results_path(path, store_dir=tmp_path / "store")
