"""The project's own loopback servers, which tests use over real connections."""

from tests.servers.anthropic_batches import AnthropicBatchServer
from tests.servers.anthropic_server import AnthropicServer
from tests.servers.batching import BatchFault, Step
from tests.servers.faults import Fault
from tests.servers.judging import Counts
from tests.servers.loopback import LoopbackServer
from tests.servers.openai_batches import OpenAIBatchServer
from tests.servers.openai_server import OpenAIServer
from tests.servers.scoring import ScoringFunction, by_words, table

__all__ = [
    "AnthropicBatchServer",
    "AnthropicServer",
    "BatchFault",
    "Counts",
    "Fault",
    "LoopbackServer",
    "OpenAIBatchServer",
    "OpenAIServer",
    "ScoringFunction",
    "Step",
    "by_words",
    "table",
]
