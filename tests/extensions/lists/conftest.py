"""A loopback host of a decision model that recognises items about lost payments."""

from collections.abc import Iterator

import pytest

from tests.servers.decision_server import DecisionServer
from tests.servers.scoring import table

QUESTION = "Which tickets speak of lost payments?"
JUDGE = "systemone:jev-1.14.0"


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> Iterator[DecisionServer]:
    """The host, set by environment variables as a user would."""
    with DecisionServer(score=table({"lost": 90}, default=4)) as running:
        monkeypatch.setenv("SYSTEMONE_BASE_URL", running.url)
        monkeypatch.setenv("XSCORE_JUDGE_MODEL", JUDGE)
        monkeypatch.setenv("XSCORE_JUDGE_PROBE", "false")
        yield running
