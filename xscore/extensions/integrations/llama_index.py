"""LlamaIndex: a postprocessor that keeps the nodes the judge finds relevant.

Synchronous; LlamaIndex runs it in a thread for async callers. Trade-off: the retriever's scores are replaced.
"""

from typing import Any

from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import MetadataMode, NodeWithScore, QueryBundle
from pydantic import Field

from xscore.extensions.integrations.keeping import kept_passages, row_metadata
from xscore.platform.errors import UsageError


class XscorePostprocessor(BaseNodePostprocessor):
    """Keep the relevant nodes, best first, with their new score; unjudged ones stay, last, with their cause."""

    threshold: float | None = None
    """The lowest score that stays. Default: `selection.threshold`, or `selection.lexical_threshold` without a model."""
    top_k: int | None = None
    """Most that stay. Default: `selection.top_k`."""
    options: dict[str, Any] = Field(default_factory=dict)
    """Passed to `xscore.judge`: judge, rubric, max_usd, deadline, store."""

    @classmethod
    def class_name(cls) -> str:
        """Return the name under which LlamaIndex stores it."""
        return "XscorePostprocessor"

    def _postprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        if query_bundle is None:
            raise UsageError("there is no question to judge the nodes by", hint="Pass query_str= or query_bundle=.")
        texts = [one.node.get_content(metadata_mode=MetadataMode.LLM) for one in nodes]
        kept = kept_passages(
            query_bundle.query_str, texts, threshold=self.threshold, top_k=self.top_k, options=self.options
        )
        found = [(nodes[place].node, row) for place, row in kept]
        return [
            NodeWithScore(node=node.model_copy(update={"metadata": node.metadata | row_metadata(row)}), score=row.score)
            for node, row in found
        ]
