"""`memory.allow_pii` applies to failures and imported lines, both ways."""

import json
from pathlib import Path

import pytest

from tests.conftest import MakeRepo
from xscore.extensions.exchange.memory_lines import import_lines
from xscore.platform.paths import find_root
from xscore.records.memory import MemoryDetails
from xscore.settings import MemorySettings
from xscore.store import failures
from xscore.store.store import Store

MAIL = "jane.doe" + "@" + "posteo.de"


@pytest.mark.parametrize("allowed", [True, False])
def test_failures_and_imported_lines_follow_the_setting(make_repo: MakeRepo, tmp_path: Path, allowed: bool) -> None:
    """An address in an error, its cause, its fix or an imported line is kept only if allowed."""
    root, settings = find_root(make_repo({"a.py": "x = 1\n"})), MemorySettings(allow_pii=allowed)
    with Store.open(root, user_data_dir=tmp_path / "data", settings=settings) as store:
        met = failures.record_failure(
            store, text=f"Error: no mail to {MAIL}", details=MemoryDetails(rationale=f"{MAIL} is gone")
        )
        mended = failures.resolve_failure(store, met.memory.id, f"write to {MAIL} again")
        line = {"schema": 1, "id": "m_" + "a" * 20, "layer": "project", "kind": "convention", "title": "mail",
                "text": f"ask {MAIL}", "source": "explicit", "created_at": 1.0, "updated_at": 1.0}  # fmt: skip
        import_lines(store, (json.dumps(line) + "\n").encode())
        texts = [row[0] for row in store.connection.execute("SELECT text || attrs FROM memory WHERE source <> 'index'")]
    assert [MAIL in text for text in texts] == [allowed] * len(texts) and len(texts) == 2
    assert (mended.memory.text.count(MAIL) == 3) is allowed
