"""LangChain: a repository as a retriever, and a compressor of documents that another retriever
found.

Both are synchronous; LangChain runs them in a thread for async callers. Trade-off: each query opens
the store again.
"""

import json
from collections.abc import Sequence
from typing import Any

from langchain_core.callbacks import CallbackManagerForRetrieverRun, Callbacks
from langchain_core.documents import BaseDocumentCompressor, Document
from langchain_core.retrievers import BaseRetriever
from pydantic import Field

import xscore
from xscore.extensions.integrations.keeping import KeepsPassages, row_metadata, warn_of_unjudged


class XscoreRetriever(BaseRetriever):
    """The memories of a repository that a task needs, as documents with path, entity, lines, score
    and reason."""

    path: str = "."
    options: dict[str, Any] = Field(default_factory=dict)
    """Passed to `xscore.open`: judge, max_usd, deadline, rubric."""

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun
    ) -> list[Document]:
        with xscore.open(self.path, **self.options) as folder:
            answer = folder.context(query, form="json")
        warn_of_unjudged(answer)
        memories = json.loads(answer.bundle or '{"memories": []}')["memories"]
        documents: list[Document] = []
        for memory in memories:
            text = memory.pop("text")
            memory_id = memory.pop("id")
            documents.append(Document(page_content=text, id=memory_id, metadata=memory))
        return documents


class XscoreCompressor(KeepsPassages, BaseDocumentCompressor):
    """Keep the documents that the judge finds relevant, best first; unjudged ones stay, last, with
    their cause."""

    def compress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Callbacks | None = None
    ) -> list[Document]:
        """Judge every document against the query. Raises what `xscore.judge` raises."""
        kept = self.kept_passages(query, [document.page_content for document in documents])
        compressed: list[Document] = []
        for place, row in kept:
            document = documents[place]
            metadata = document.metadata | row_metadata(row)
            compressed.append(document.model_copy(update={"metadata": metadata}))
        return compressed
