"""The SQL of the store's schema at a number: as it was kept when it changed, else `schema.sql`.

A step aims at the schema of its own number, not at today's, so that later steps find what they
expect.
"""

from pathlib import Path

from xscore.platform.table_changes import SchemaScript, parse_script

_FOLDER = Path(__file__).parent


def script_of(number: int) -> SchemaScript:
    """Return what the schema of this number creates."""
    kept = _FOLDER / f"{number}.sql"
    current = _FOLDER.parent / "schema.sql"
    return parse_script((kept if kept.exists() else current).read_text("utf-8"))
