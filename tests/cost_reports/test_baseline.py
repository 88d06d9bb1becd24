"""The baseline as a file: readable in review, validated when read."""

import json
import os
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from msgspec import convert
from msgspec.structs import replace

from tests.cost_reports.gate_reports import MEASURED, made
from xscore.cost_reports import gate
from xscore.cost_reports.records import StageP95
from xscore.cost_reports.report_files import check_report
from xscore.platform.errors import UsageError
from xscore.records.calls import Stage
from xscore.records.receipt import Latency
from xscore.settings import GateSettings


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The path of a baseline."""
    place = tmp_path / "baseline.json"
    gate.write_baseline(place, MEASURED)
    return place


def put(path: Path, **changes: Any) -> None:
    """Change fields of the file."""
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def test_what_is_written_is_read_back(path: Path) -> None:
    """Every figure survives the round trip, dollars to the last picodollar."""
    assert gate.read_baseline(path) == MEASURED
    precise = replace(MEASURED, cost_usd=Decimal("0.021300000001"), recall=None, timings=())
    gate.write_baseline(path, precise)
    assert gate.read_baseline(path) == precise


def test_the_file_is_made_for_diffs(path: Path) -> None:
    """Sorted keys, one figure on each line, a final newline; the same figures give the same
    bytes."""
    text = path.read_text()
    assert text.endswith("}\n") and not text.endswith("\n\n")
    assert list(json.loads(text)) == sorted(json.loads(text))
    assert '  "cost_usd": "0.0213",\n' in text
    unsorted = replace(
        MEASURED, timings=(*MEASURED.timings, replace(MEASURED.timings[0], stage="probe"))
    )
    turned = replace(unsorted, timings=tuple(reversed(unsorted.timings)))
    assert gate.baseline_json(unsorted) == gate.baseline_json(turned)


def test_every_stage_that_is_timed_can_be_read_back(path: Path) -> None:
    """A stage added to turns or calls is allowed in a baseline."""
    of_turns, of_calls = list(Latency.__struct_fields__), list(map(str, Stage))
    timings = tuple(
        convert({"of": of, "stage": stage, "kind": kind, "count": 9, "p95_s": 0.5}, StageP95)
        for of, stages in (("call", sorted(of_calls)), ("turn", sorted(of_turns)))
        for stage in stages
        for kind in ("cached", "live")
    )
    gate.write_baseline(path, replace(MEASURED, timings=timings))
    assert gate.read_baseline(path) == replace(MEASURED, timings=timings)


def test_a_missing_file_names_the_way_to_write_one(tmp_path: Path) -> None:
    """Missing file: exit 2, with the flag that writes it."""
    with pytest.raises(UsageError, match="no baseline") as caught:
        check_report(made(), baseline=tmp_path / "none.json", gates=GateSettings())
    assert "--update-baseline" in caught.value.hint


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "is not JSON"),
        (b"\xff\xfe{}", "is not JSON"),
        (b'{"schema": 1, "turns": NaN}', "is not JSON"),
        (b"[" * 100_000, "is not JSON"),
        (b"[]", "cannot be understood"),
        (b"{}", "cannot be understood: .*schema"),
        (b'{"schema": "1"}', "cannot be understood: .*schema"),
        (b'{"schema": 2, "what": "is new"}', r"newer xscore \(schema 2; this one reads 1\)"),
        (b'{"schema": 1}', "cannot be understood: .*turns"),
        (b'{"schema": 1, "calls": 60, "calls": 600}', 'the key "calls" appears twice'),
        (b" " * 1_000_001, "more than 1,000,000 bytes"),
    ],
)
def test_what_is_no_baseline_is_refused(path: Path, data: bytes, says: str) -> None:
    """Not JSON, not UTF-8, too deep, too long, another or a newer schema: each has its own
    message."""
    path.write_bytes(data)
    with pytest.raises(UsageError, match=says) as caught:
        gate.read_baseline(path)
    assert str(path) in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize(
    "changes",
    [
        {"turns": -1},
        {"turns": True},
        {"calls": 1e400},
        {"cost_usd": "-0.02"},
        {"cost_usd": "1e9999999"},
        {"coverage": {"candidates": 9, "judged": 1, "cached": 1, "carried": 1, "unjudged": 1}},
        {"recall": {"questions": "q", "judge": "lexical", "cases": 1, "k": 1, "recall": 1.01}},
        {"recall": {"questions": "q", "cases": 1, "k": 1, "recall": 0.5}},
        {
            "timings": [
                {"of": "@everyone", "stage": "judge", "kind": "live", "count": 3, "p95_s": 0.1}
            ]
        },
        {
            "timings": [
                {
                    "of": "call",
                    "stage": "| ![](http://x)",
                    "kind": "live",
                    "count": 3,
                    "p95_s": 0.1,
                }
            ]
        },
        {
            "timings": [
                {"of": "call", "stage": "judge", "kind": "<b>", "count": 3, "p95_s": 0.1}
            ]
        },
        {
            "timings": [
                {"of": "call", "stage": "judge", "kind": "live", "count": 3, "p95_s": -0.1}
            ]
        },
        {
            "timings": [
                {"of": "call", "stage": "judge", "kind": "live", "count": 3, "p95_s": 1e300}
            ]
        },
        {"usage": {"input_tokens": 5}},
        {
            "coverage": {
                "candidates": -1,
                "judged": -1,
                "cached": 0,
                "carried": 0,
                "unjudged": 0,
            }
        },
        {"unknown": 1},
    ],
)
def test_a_figure_that_makes_no_sense_is_refused(path: Path, changes: dict[str, Any]) -> None:
    """Negative, malformed, boolean, textual, infinite or unknown figures are named and never
    compared."""
    put(path, **changes)
    with pytest.raises(UsageError, match=r"cannot be understood|does not add up|is not JSON"):
        gate.read_baseline(path)


def test_what_is_no_file_is_refused(tmp_path: Path, path: Path) -> None:
    """A folder, a pipe, a link, a name below a file: exit 2 at once, reading or writing."""
    link, pipe, folder = (
        tmp_path / "link.json",
        tmp_path / "pipe.json",
        tmp_path / "folder.json",
    )
    link.symlink_to(path)
    os.mkfifo(pipe)
    folder.mkdir()
    for place, says in (
        (link, "is a link"),
        (pipe, "is not a file"),
        (folder, "is not a file"),
        (path / "below.json", "cannot be read: Not a directory"),
    ):
        with pytest.raises(UsageError, match=says):
            gate.read_baseline(place)
        with pytest.raises(UsageError, match=says):
            gate.write_baseline(place, MEASURED)
    assert gate.read_baseline(path) == MEASURED


def test_another_file_is_not_written_over(tmp_path: Path) -> None:
    """A file that is not a baseline is never overwritten."""
    readme = tmp_path / "README.md"
    readme.write_text("# Shop\n")
    with pytest.raises(UsageError, match="is not JSON"):
        gate.write_baseline(readme, MEASURED)
    assert readme.read_text() == "# Shop\n"
    assert [entry.name for entry in tmp_path.iterdir()] == ["README.md"]


def test_our_own_baseline_can_be_held() -> None:
    """The committed baseline is complete: priced calls, an evaluation, and enough calls for a
    p95."""
    baseline = gate.read_baseline(Path(__file__).parents[2] / "cost_reports" / "baseline.json")
    assert baseline is not None and baseline.recall is not None
    assert baseline.cost_usd > 0 == baseline.unpriced
    assert 0 < baseline.recall.recall < 1
    judged = [
        timing.count
        for timing in baseline.timings
        if (timing.of, timing.stage) == ("call", "judge")
    ]
    assert min(judged) >= GateSettings().min_samples
