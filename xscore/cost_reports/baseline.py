"""The baseline as a file: JSON that a person reviews in a diff, read back without trusting it.

Keys are sorted, one figure stands on a line, dollars are a decimal string, seconds are rounded to a tenth of a
millisecond. A file that is no baseline is neither read nor overwritten, and no link is followed: a mistyped name must
not destroy a file. Trade-off: each field that others can write is checked.
"""

import json
from decimal import Decimal
from pathlib import Path

import msgspec
from msgspec import ValidationError, convert, to_builtins
from msgspec.structs import astuple

from xscore.cost_reports.records import GateFigures
from xscore.platform.errors import BrokenReceipt, UsageError
from xscore.platform.files import FileRefused, read_named_file, unwritable_file, write_atomically
from xscore.platform.json_lines import refuse_repeated_keys
from xscore.records.calls import Stage, Usage
from xscore.records.receipt import Latency

SCHEMA = 1
MAX_BYTES = 1_000_000
MAX_USD = Decimal(10**12)
NAME_IT = "Name the file itself with --baseline."
WRITE_IT = "Write one with --update-baseline, and commit it."
NAME_ANOTHER = "Name the right file with --baseline, or remove this one and write a new one with --update-baseline."


def read_baseline(path: Path) -> GateFigures:
    """Read a baseline. Raises UsageError for whatever is not one."""
    found = read_baseline_if_present(path)
    if found is None:
        raise UsageError(f"there is no baseline at {path}", hint=WRITE_IT)
    return found


def read_baseline_if_present(path: Path) -> GateFigures | None:
    """Read a baseline; None where no file is. Raises UsageError for a file that is not one."""
    try:
        data = read_named_file(path, max_bytes=MAX_BYTES, follow=False)
    except FileNotFoundError:
        return None
    except FileRefused as error:
        what = f"has more than {MAX_BYTES:,} bytes" if str(error) == "too_large" else "is no file"
        raise UsageError(f"the baseline {path} {what}", hint=NAME_IT) from error
    except OSError as error:
        what = "is a link, and none is followed" if path.is_symlink() else f"cannot be read: {error.strerror}"
        raise UsageError(f"the baseline {path} {what}", hint=NAME_IT) from error
    return _parsed(data, path)


def write_baseline(path: Path, measured: GateFigures) -> None:
    """Put a baseline into place whole. Raises UsageError where it cannot be written, or another file stands there."""
    read_baseline_if_present(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unwritable_file(path, error.strerror) from error
    write_atomically(path, baseline_json(measured).encode())


def baseline_json(measured: GateFigures) -> str:
    """Return a baseline as it stands in its file."""
    body = to_builtins(measured)
    del body["left_out"]
    timings = sorted(body["timings"], key=lambda timing: (timing["of"], timing["stage"], timing["kind"]))
    body |= {
        "schema": SCHEMA,
        "cost_usd": f"{round(measured.cost_usd, 12).normalize():f}",
        "timings": [{**timing, "p95_s": round(timing["p95_s"], 4)} for timing in timings],
    }
    return json.dumps(body, sort_keys=True, indent=2, allow_nan=False) + "\n"


def _parsed(data: bytes, path: Path) -> GateFigures:
    try:
        value = msgspec.json.decode(data)  # no NaN, no Infinity
        refuse_repeated_keys(data.decode())
    except (ValueError, RecursionError) as error:
        raise UsageError(f"the baseline {path} is not JSON: {error}", hint=NAME_ANOTHER) from error
    schema = value.pop("schema", None) if isinstance(value, dict) else None
    if isinstance(schema, int) and schema > SCHEMA:
        raise UsageError(
            f"the baseline {path} is of schema {schema}, and this xscore knows {SCHEMA}",
            hint="Upgrade xscore, or remove the file and write a new one with --update-baseline.",
        )
    try:
        if schema != SCHEMA:
            raise ValidationError("it has no schema")
        found = convert(value, GateFigures)
        _refuse_foreign(found, value)
    except (ValueError, TypeError, BrokenReceipt) as error:
        raise UsageError(f"the baseline {path} cannot be understood: {error}", hint=NAME_ANOTHER) from error
    return found


def _refuse_foreign(found: GateFigures, value: dict[str, dict[str, object]]) -> None:
    """Raise ValueError for names and amounts that no report has."""
    if value["usage"].keys() != set(Usage.__struct_fields__) or min(astuple(found.usage)) < 0:
        raise ValueError("its tokens are not those of a baseline")
    if min(astuple(found.coverage)) < 0:
        raise ValueError("its coverage is below zero")
    if not 0 <= found.cost_usd < MAX_USD:
        raise ValueError("its dollars are no amount")
    stages = {*Latency.__struct_fields__, *map(str, Stage)}
    if any(timing.stage not in stages for timing in found.timings):
        raise ValueError("it times what no report has")
