"""Servers of the project's own, on loopback, that tests talk to over real connections."""

from tests.servers.anthropic_server import AnthropicServer
from tests.servers.faults import Fault
from tests.servers.judging import Counts
from tests.servers.loopback import LoopbackServer
from tests.servers.openai_server import OpenAIServer
from tests.servers.scoring import ScoringFunction, by_words, table

__all__ = [
    "AnthropicServer",
    "Counts",
    "Fault",
    "LoopbackServer",
    "OpenAIServer",
    "ScoringFunction",
    "by_words",
    "table",
]
