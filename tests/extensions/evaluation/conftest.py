"""The loopback host scores the questions about the shop."""

import pytest

from tests.extensions.evaluation.shop_run import SCORES
from tests.servers.openai_server import OpenAIServer
from tests.servers.scoring import table


@pytest.fixture(autouse=True)
def scores(server: OpenAIServer) -> None:
    """Score them."""
    server.score = table(SCORES)
