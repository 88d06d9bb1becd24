"""The baseline as a file: JSON that a person reviews in a diff, read back without trusting it.

Keys are sorted, one figure stands on a line, dollars are a decimal string, seconds are rounded to a tenth of a
millisecond. A file that is no baseline is neither read nor overwritten, and no link is followed: a name typed in haste
must not cost a file. `gate` decides what is compared. Trade-off: each field that others can write is checked.
"""

import json
import secrets
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal, NoReturn

from msgspec import Meta, Struct, ValidationError, convert, field, to_builtins

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
NAME_ANOTHER = "Name the right file with --baseline, or remove this one and write a new one with --update-baseline."
_NO_BASELINE = {
    "not_a_file": ("is no file", NAME_IT),
    "too_large": (f"has more than {MAX_BYTES:,} bytes", NAME_ANOTHER),
}

Count = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Word = Annotated[str, Meta(max_length=200)]


class _Recall(Struct, forbid_unknown_fields=True):
    questions: Word
    judge: Word
    cases: Count
    k: Count
    recall: Annotated[float, Meta(ge=0, le=1)]


class _Timing(Struct, forbid_unknown_fields=True):
    of: Literal["turn", "call"]
    stage: Literal["index", "pool", "cache", "judge", "select", "primary", "total", "probe", "embed"]
    kind: Literal["live", "cached"]
    count: Count
    p95_s: Annotated[float, Meta(ge=0, le=1e9)]


class _Baseline(Struct, forbid_unknown_fields=True):
    schema_: Literal[1] = field(name="schema")
    turns: Count
    coverage: dict[str, Count]
    calls: Count
    attempts: Count
    usage: dict[str, Count]
    cost_usd: Annotated[str, Meta(pattern=r"^[0-9]{1,12}(\.[0-9]{1,12})?$")]
    unpriced: Count
    recall: _Recall | None
    timings: Annotated[list[_Timing], Meta(max_length=1_000)]


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
    body = to_builtins(measured)
    del body["evaluations_passed_over"], body["left_out"]
    body["schema"] = SCHEMA
    body["cost_usd"] = f"{dollars_of_picodollars(picodollars(measured.cost_usd)):f}"
    body["timings"] = sorted(body["timings"], key=lambda timing: (timing["of"], timing["stage"], timing["kind"]))
    for timing in body["timings"]:
        timing["p95_s"] = round(timing["p95_s"], 4)
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
        value = json.loads(data.decode(), parse_constant=_refuse_constant)
        refuse_repeated_keys(data.decode())
    except (ValueError, RecursionError) as error:
        raise UsageError(f"the baseline {path} is not JSON: {error}", hint=NAME_ANOTHER) from error
    schema = value.get("schema") if isinstance(value, dict) else None
    if isinstance(schema, int) and schema > SCHEMA:
        raise UsageError(
            f"the baseline {path} is of schema {schema}, and this xscore knows {SCHEMA}",
            hint="Upgrade xscore, or remove the file and write a new one with --update-baseline.",
        )
    try:
        return _figures(value)
    except ValidationError as error:
        raise UsageError(f"the baseline {path} cannot be understood: {error}", hint=NAME_ANOTHER) from error
    except (ValueError, TypeError, BrokenReceipt) as error:
        raise UsageError(f"the baseline {path} does not add up: {error}", hint=NAME_ANOTHER) from error


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number")


def _figures(value: Any) -> GateFigures:
    found = convert(value, _Baseline)
    if found.usage.keys() != set(Usage.__struct_fields__):
        raise ValueError("its kinds of tokens are not those of a baseline")
    return GateFigures(
        turns=found.turns,
        coverage=Coverage(**found.coverage),
        calls=found.calls,
        attempts=found.attempts,
        usage=Usage(**found.usage),
        cost_usd=Decimal(found.cost_usd),
        unpriced=found.unpriced,
        recall=convert(found.recall, EvaluationRecall, from_attributes=True) if found.recall else None,
        timings=tuple(convert(timing, StageP95, from_attributes=True) for timing in found.timings),
    )
