"""`--all-scores`: one JSON line a candidate, written aside and moved into place whole."""

import json
import os
from collections.abc import Iterable
from pathlib import Path

from xscore.errors import UsageError
from xscore.pipeline.receipt import to_json
from xscore.records import ScoreLine


def write_scores(path: Path, lines: Iterable[ScoreLine]) -> None:
    """Write the lines. Raises UsageError where the file cannot be written; the turn itself is kept."""
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with aside.open("w", encoding="utf-8") as file:
            for line in lines:
                body = to_json(line)
                del body["schema"]
                file.write(json.dumps(body, ensure_ascii=False) + "\n")
        aside.replace(path)
    except OSError as error:
        aside.unlink(missing_ok=True)
        raise UsageError(f"{path} cannot be written: {error.strerror}", hint="The turn itself is kept.") from error
