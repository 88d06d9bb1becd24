"""The integrations in the real frameworks, against a loopback host."""

import asyncio
import os
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.servers.decision_server import DecisionServer
from tests.test_examples import host, shop
from xscore.settings import SelectionSettings, load_settings

__all__ = ["host", "shop"]
pytestmark = pytest.mark.verify

QUESTION = "Which tickets speak of lost payments?"
TEXTS = [
    "A payment was lost.",
    "The font is small.",
    "Two payments are lost since May.",
    "poison",
]


def test_langchain_retrieves_from_a_repository(shop: Path, host: DecisionServer) -> None:
    """Documents are the chosen memories, with place, score and reason; async callers get the
    same."""
    from xscore.extensions.integrations.langchain import XscoreRetriever

    retriever = XscoreRetriever(path=str(shop))
    documents = retriever.invoke("where is the discount taken?")
    assert {document.metadata["entity"] for document in documents} >= {"discount", "total"}
    assert all(
        document.page_content and document.metadata["score"] >= 0.7 for document in documents
    )
    requests = host.requests
    assert asyncio.run(retriever.ainvoke("where is the discount taken?")) == documents
    assert host.requests == requests


def test_langchain_compresses_documents(host: DecisionServer) -> None:
    """Relevant documents stay, best first, unchanged except for the judge's fields; the input is
    not modified."""
    from langchain_core.documents import Document

    from xscore.extensions.integrations.langchain import XscoreCompressor

    documents = [
        Document(page_content=text, metadata={"page": at}) for at, text in enumerate(TEXTS)
    ]
    kept = XscoreCompressor(top_k=15).compress_documents(documents, QUESTION)
    assert [(document.page_content, document.metadata["page"]) for document in kept] == [
        (TEXTS[0], 0),
        (TEXTS[2], 2),
    ]
    assert kept[0].metadata["xscore"]["score"] == 0.9 and documents[0].metadata == {"page": 0}
    assert XscoreCompressor().compress_documents([], QUESTION) == []
    host.status = lambda body: (400, "declined")
    failed = XscoreCompressor().compress_documents(
        [Document(page_content="Another one was lost.")], QUESTION
    )
    assert [document.metadata["xscore"]["outcome"] for document in failed] == ["unjudged"]


def test_llama_index_postprocesses_nodes(host: DecisionServer) -> None:
    """Nodes get the judge's score; a missing question is an error."""
    from llama_index.core.schema import NodeWithScore, TextNode

    from xscore.extensions.integrations.llama_index import XscorePostprocessor
    from xscore.platform.errors import UsageError

    nodes = [
        NodeWithScore(node=TextNode(text=text, id_=str(at)), score=0.1)
        for at, text in enumerate(TEXTS)
    ]
    processor = XscorePostprocessor(top_k=1)
    kept = processor.postprocess_nodes(nodes, query_str=QUESTION)
    assert [(node.node.node_id, node.score) for node in kept] == [("0", 0.9)]
    with pytest.raises(UsageError):
        processor.postprocess_nodes(nodes)


def test_llm_loads_a_fragment(
    shop: Path, host: DecisionServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`-f xscore:TASK` finds the loader, and the fragment is the chosen context with the turn as
    its source."""
    import llm
    from llm import plugins

    from xscore.extensions.integrations import llm_fragments

    monkeypatch.setattr(plugins, "LLM_LOAD_PLUGINS", "")
    plugins.pm.register(llm_fragments)
    try:
        fragment = llm.get_fragment_loaders()["xscore"]("where is the discount taken?")
    finally:
        plugins.pm.unregister(llm_fragments)
    assert "def discount(amount" in fragment and fragment.source.startswith("xscore:t_")
    host.status = lambda body: (400, "declined")
    with pytest.warns(UserWarning, match="memories are unjudged"):
        llm_fragments.load_context("where is the price raised?")


def test_the_settings_decide_what_stays(host: DecisionServer) -> None:
    """Without a threshold or top-K of its own, an integration takes those of the settings."""
    from xscore.extensions.integrations.keeping import KeepsPassages

    def kept(**selection: float) -> int:
        selection_settings = SelectionSettings(**selection)  # type: ignore[arg-type]  # by name
        loaded = load_settings(repo_root=None, user_file=None, environ=os.environ).settings
        options = {"settings": replace(loaded, selection=selection_settings)}
        return len(KeepsPassages(options=options).kept_passages(QUESTION, TEXTS[:3]))

    assert (kept(), kept(top_k=1), kept(threshold=0.95)) == (2, 1, 0)
