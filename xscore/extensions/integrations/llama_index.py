"""LlamaIndex: a postprocessor that keeps the nodes the judge finds relevant.

Synchronous; LlamaIndex runs it in a thread for async callers. Trade-off: the retriever's scores are
replaced.
"""

from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import MetadataMode, NodeWithScore, QueryBundle

from xscore.extensions.integrations.keeping import KeepsPassages, row_metadata
from xscore.platform.errors import UsageError


class XscorePostprocessor(KeepsPassages, BaseNodePostprocessor):
    """Keep the relevant nodes, best first, with their new score; unjudged ones stay, last, with
    their cause."""

    @classmethod
    def class_name(cls) -> str:
        """Return the name under which LlamaIndex stores it."""
        return "XscorePostprocessor"

    def _postprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        if query_bundle is None:
            raise UsageError(
                "there is no question to judge the nodes by",
                hint="Pass query_str= or query_bundle=.",
            )
        texts = [node.node.get_content(metadata_mode=MetadataMode.LLM) for node in nodes]
        kept_nodes = []
        for place, row in self.kept_passages(query_bundle.query_str, texts):
            kept_nodes.append((nodes[place].node, row))
        scored: list[NodeWithScore] = []
        for node, row in kept_nodes:
            metadata = node.metadata | row_metadata(row)
            copy = node.model_copy(update={"metadata": metadata})
            scored.append(NodeWithScore(node=copy, score=row.score))
        return scored
