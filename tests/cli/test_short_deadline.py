"""A deadline shorter than the import of the HTTP client holds for the whole process."""

import json
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.conftest import MakeRepo
from tests.waiting import slower_attempts

pytestmark = pytest.mark.verify

KEY = "sk-0123456789-abcdefghij"
SLOW_IMPORT = """
import sys, time
class Slow:
    def find_spec(self, name, path=None, target=None):
        if name == "aiohttp":
            time.sleep({import_s})

sys.meta_path.insert(0, Slow())
"""


@pytest.fixture
def silent() -> Iterator[str]:
    """A host that accepts connections and never answers, as a base URL."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listening:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"


@pytest.mark.parametrize("dialect", ["openai", "anthropic"])
@pytest.mark.parametrize("import_s", [0.0, 90.0], ids=["silent host", "slow import"])
def test_a_process_ends_at_a_short_deadline(
    xscore: Run, make_repo: MakeRepo, tmp_path: Path, silent: str, dialect: str, import_s: float
) -> None:
    """With a silent host on its first turn, words rank with exit 1, without waiting for an
    import."""
    root = make_repo({"a.py": "def f():\n    return 1\n"})
    (tmp_path / "sitecustomize.py").write_text(SLOW_IMPORT.format(import_s=import_s))
    name = dialect.upper()
    models = ("--judge", f"{dialect}:judge-2", "--model", f"{dialect}:strong-1")
    environ = {f"{name}_BASE_URL": silent, f"{name}_API_KEY": KEY, "PYTHONPATH": str(tmp_path)}
    for attempt in slower_attempts():
        with attempt:
            begun = time.monotonic()
            ended = xscore(
                *("ask", "mend it", *models, "--deadline", f"{attempt.slowness}s", "--json"),
                cwd=root,
                environ=environ,
            )
            # The host is silent for as long as it is asked.
            assert time.monotonic() - begun < 30 + attempt.slowness
            assert ended.returncode == 1, ended.stderr
            assert "Traceback" not in ended.stderr and "Fatal" not in ended.stderr
            receipt = json.loads(ended.stdout)
            candidates = receipt["coverage"]["candidates"]
            assert receipt["coverage"]["unjudged"] == candidates
            attempt.needs(candidates, "no file was indexed")
            assert receipt["ranked_by"] == "lexical"
            assert receipt["unjudged"]["by_cause"] == {"deadline": candidates}
