"""JSON out of strangers' files: an object or a plain refusal, times as unix seconds, fields only of the type they have.

Bytes that are not UTF-8 are replaced, not refused: one bad letter must not cost a session.
"""

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from xscore.sessions.session_format import Line, UnreadableSession

_CWD = re.compile(rb'"cwd"\s*:\s*("(?:[^"\\]|\\.)*")')


def record_of(line: Line) -> dict[str, Any] | None:
    """Read a line as one object; None for a blank line, and for the last one where it is only half written."""
    text = line.data.decode("utf-8", "replace").lstrip("\ufeff").strip()
    if not text:
        return None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        if line.is_open:
            return None
        why = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise UnreadableSession(line.number, f"expected one JSON object ({why})") from error
    if not isinstance(found, dict):
        raise UnreadableSession(line.number, f"expected one JSON object, found {type(found).__name__}")
    return found


def looks_whole(line: Line) -> bool:
    """Whether a line that is not worth parsing is an object at least by its ends; blank lines pass."""
    return not line.data or (line.data.startswith(b"{") and line.data.endswith(b"}"))


def text_in(record: Mapping[str, Any], name: str) -> str:
    """Return a field that is text; empty where it is not."""
    value = record.get(name)
    return value if isinstance(value, str) else ""


def object_in(record: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return a field that is an object; empty where it is not."""
    value = record.get(name)
    return value if isinstance(value, dict) else {}


def objects_in(record: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    """Return the objects of a field that is a list."""
    value = record.get(name)
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def needed(record: Mapping[str, Any], name: str, line: Line, where: str) -> str:
    """Return a field that the format cannot do without. Raises UnreadableSession."""
    value = text_in(record, name)
    if not value:
        raise UnreadableSession(line.number, f"expected `{name}` in {where}")
    return value


def moment(written: object) -> float | None:
    """Read a time in ISO 8601 or in milliseconds as unix seconds; None: it is no time."""
    try:
        if isinstance(written, str):
            told = datetime.fromisoformat(written)
            return (told if told.tzinfo else told.replace(tzinfo=UTC)).timestamp()
        if isinstance(written, int | float) and not isinstance(written, bool):
            return datetime.fromtimestamp(written / 1000, UTC).timestamp()
    except (ValueError, OverflowError, OSError):
        pass
    return None


def needed_moment(record: Mapping[str, Any], name: str, line: Line, where: str) -> float:
    """Return a time that the format cannot do without. Raises UnreadableSession."""
    told = moment(record.get(name))
    if told is None:
        raise UnreadableSession(line.number, f"expected a time as `{name}` in {where}")
    return told


def texts_of(content: object, *types: str) -> str:
    """Join the texts of a message: plain, or of its blocks of these types."""
    if isinstance(content, str):
        return content
    blocks = content if isinstance(content, list) else []
    texts = [block.get("text") for block in blocks if isinstance(block, dict) and block.get("type") in types]
    return "\n".join(text for text in texts if isinstance(text, str))


def folders_in(head: bytes) -> list[str]:
    """Return the `cwd` values in the first bytes of a file, each once."""
    found = []
    for quoted in dict.fromkeys(_CWD.findall(head)):
        try:
            found.append(str(json.loads(quoted)))
        except ValueError:
            continue
    return found
