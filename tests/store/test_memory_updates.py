"""Who changes the rows of memories."""

import re
from pathlib import Path

import xscore

WRITES = re.compile(r"\b(UPDATE|INSERT INTO|DELETE FROM)\s+(\w+\.)?memory_row\b")
TAKES_OVER = "indexer/takeover.py"
"""The module that copies the rows of a sibling's index, by SQL over two databases."""


def test_only_the_store_writes_the_table_of_memories() -> None:
    """Rooms above the store change a memory by its functions: one room knows the columns."""
    package_file = xscore.__file__
    assert package_file is not None
    package = Path(package_file).parent
    writers = {
        file.relative_to(package).as_posix()
        for file in package.rglob("*.py")
        if WRITES.search(file.read_text("utf-8"))
    }
    assert {place for place in writers if not place.startswith("store/")} == {TAKES_OVER}
    assert "store/memory_updates.py" in writers
