"""The baseline as a file: JSON that a person reviews in a diff, read back without believing it.

Keys are sorted, one figure stands on a line, dollars are a decimal string, seconds are rounded to a tenth of a
millisecond. A file that is no baseline is neither read nor written over, and no link is followed: a name given in
haste must not cost a file. What is compared is decided in `gate`.
"""

import json
import secrets
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Literal

import pydantic_core
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from xscore.platform.errors import BrokenReceipt, UsageError
from xscore.platform.files import FileRefused, read_named_file
from xscore.platform.json_lines import refuse_repeated_keys
from xscore.platform.money import dollars_of_picodollars, picodollars
from xscore.records import Coverage, Usage
from xscore.records.cost_report import EvaluationRecall, GateFigures, StageP95

SCHEMA = 1
MAX_BYTES = 1_000_000
NAME_IT = "Name the file itself with --baseline."
WRITE_IT = "Write one with --update-baseline, and commit it."
NAME_ANOTHER = "Name the right file with --baseline, or remove this one and write it anew with --update-baseline."
_NO_BASELINE = {
    "not_a_file": ("is no file", NAME_IT),
    "too_large": (f"has more than {MAX_BYTES:,} bytes", NAME_ANOTHER),
}

Count = Annotated[int, Field(ge=0, lt=2**63)]
Share = Annotated[float, Field(ge=0, le=1)]
Seconds = Annotated[float, Field(ge=0)]
Word = Annotated[str, Field(max_length=200)]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", allow_inf_nan=False, hide_input_in_errors=True)


class _Coverage(_Part):
    candidates: Count
    judged: Count
    cached: Count
    carried: Count
    unjudged: Count


class _Usage(_Part):
    input_tokens: Count
    cached_input_tokens: Count
    cache_write_tokens: Count
    cache_write_1h_tokens: Count
    output_tokens: Count
    reasoning_tokens: Count


class _Recalled(_Part):
    questions: Word
    judge: Word
    cases: Count
    k: Count
    recall: Share


class _Sampled(_Part):
    of: Literal["turn", "call"]
    stage: Literal["index", "pool", "cache", "judge", "select", "primary", "total", "probe", "embed"]
    kind: Literal["live", "cached"]
    count: Count
    p95_s: Seconds


class _Baseline(_Part):
    schema_: Literal[1] = Field(alias="schema")
    turns: Count
    coverage: _Coverage
    calls: Count
    attempts: Count
    usage: _Usage
    cost_usd: Annotated[str, Field(pattern=r"^[0-9]{1,12}(\.[0-9]{1,12})?$")]
    unpriced: Count
    recall: _Recalled | None
    timings: Annotated[list[_Sampled], Field(max_length=1_000)]


def read_baseline(path: Path) -> GateFigures:
    """Read a baseline. Raises UsageError for whatever is not one."""
    data = _bytes_of(path)
    if data is None:
        raise UsageError(f"there is no baseline at {path}", hint=WRITE_IT)
    return _parsed(data, path)


def read_baseline_if_present(path: Path) -> GateFigures | None:
    """Read a baseline; None where no file is. Raises UsageError for a file that is not one."""
    data = _bytes_of(path)
    return None if data is None else _parsed(data, path)


def write_baseline(path: Path, measured: GateFigures) -> None:
    """Put a baseline into place whole. Raises UsageError where it cannot be written, or another file stands there."""
    read_baseline_if_present(path)
    aside = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with aside.open("x", encoding="utf-8", newline="\n") as file:
                file.write(baseline_json(measured))
            aside.replace(path)
        finally:
            aside.unlink(missing_ok=True)
    except OSError as error:
        raise UsageError(
            f"the baseline {path} cannot be written: {error.strerror}", hint="Name a file that you may write."
        ) from error


def baseline_json(measured: GateFigures) -> str:
    """Return a baseline as it stands in its file."""
    recall, coverage, usage = measured.recall, measured.coverage, measured.usage
    body = {
        "schema": SCHEMA,
        "turns": measured.turns,
        "coverage": {name: getattr(coverage, name) for name in _Coverage.model_fields},
        "calls": measured.calls,
        "attempts": measured.attempts,
        "usage": {name: getattr(usage, name) for name in _Usage.model_fields},
        "cost_usd": f"{dollars_of_picodollars(picodollars(measured.cost_usd)):f}",
        "unpriced": measured.unpriced,
        "recall": recall and {name: getattr(recall, name) for name in _Recalled.model_fields},
        "timings": [
            {"of": timing.of, "stage": timing.stage, "kind": timing.kind, "count": timing.count}
            | {"p95_s": round(timing.p95_s, 4)}
            for timing in sorted(measured.timings, key=lambda timing: (timing.of, timing.stage, timing.kind))
        ],
    }
    return json.dumps(body, sort_keys=True, indent=2, allow_nan=False) + "\n"


def _bytes_of(path: Path) -> bytes | None:
    """Read a regular file, whatever stands at its name; None where nothing does."""
    try:
        return read_named_file(path, max_bytes=MAX_BYTES, follow=False)
    except FileNotFoundError:
        return None
    except FileRefused as error:
        what, hint = _NO_BASELINE[str(error)]
        raise UsageError(f"the baseline {path} {what}", hint=hint) from error
    except OSError as error:
        what = "is a link, and none is followed" if path.is_symlink() else f"cannot be read: {error.strerror}"
        raise UsageError(f"the baseline {path} {what}", hint=NAME_IT) from error


def _parsed(data: bytes, path: Path) -> GateFigures:
    try:
        value = pydantic_core.from_json(data, allow_inf_nan=False)
    except ValueError as error:
        raise UsageError(f"the baseline {path} is not JSON: {error}", hint=NAME_ANOTHER) from error
    schema = value.get("schema") if isinstance(value, dict) else None
    if isinstance(schema, int) and schema > SCHEMA:
        raise UsageError(
            f"the baseline {path} is of schema {schema}, and this xscore knows {SCHEMA}",
            hint="Upgrade xscore, or remove the file and write it anew with --update-baseline.",
        )
    try:
        refuse_repeated_keys(data.decode())
        return _measured(_Baseline.model_validate_json(data))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "the whole"
        message = f"the baseline {path} cannot be understood: {where}: {first['msg']}"
        raise UsageError(message, hint=NAME_ANOTHER) from error
    except (ValueError, BrokenReceipt) as error:
        raise UsageError(f"the baseline {path} does not add up: {error}", hint=NAME_ANOTHER) from error


def _measured(found: _Baseline) -> GateFigures:
    return GateFigures(
        turns=found.turns,
        coverage=Coverage(**found.coverage.model_dump()),
        calls=found.calls,
        attempts=found.attempts,
        usage=Usage(**found.usage.model_dump()),
        cost_usd=Decimal(found.cost_usd),
        unpriced=found.unpriced,
        recall=EvaluationRecall(**found.recall.model_dump()) if found.recall else None,
        timings=tuple(StageP95(**timing.model_dump()) for timing in found.timings),
    )
