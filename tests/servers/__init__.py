"""Servers of the project's own, on loopback, that tests talk to over real connections."""

from tests.servers.faults import Fault
from tests.servers.openai_server import OpenAIServer
from tests.servers.scoring import ScoringFunction, by_words, table

__all__ = ["Fault", "OpenAIServer", "ScoringFunction", "by_words", "table"]
