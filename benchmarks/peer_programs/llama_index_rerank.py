"""LlamaIndex: `LLMRerank` with its defaults (10 documents a prompt). Arguments: base URL, result
file, calls in flight.

Its asynchronous form is used, which is the faster one; it runs 4 calls at a time and takes no other
number, so the third argument is not heard. `top_n` is set so that it returns everything it has a
score for.
"""

import asyncio
import json
import sys
from pathlib import Path

import candidates
from llama_index.core.postprocessor import LLMRerank
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
from llama_index.llms.openai_like import OpenAILike

url, result = sys.argv[1], Path(sys.argv[2])
model = OpenAILike(
    model="bench",
    api_base=url,
    api_key="none",
    is_chat_model=True,
    context_window=128_000,
    max_retries=candidates.RETRIES,
)
nodes = [
    NodeWithScore(node=TextNode(text=candidates.text(number), id_=str(number)))
    for number in range(candidates.COUNT)
]
reranker = LLMRerank(llm=model, top_n=candidates.COUNT)
ranked = asyncio.run(reranker.apostprocess_nodes(nodes, QueryBundle(candidates.TASK)))
result.write_text(json.dumps({found.node.node_id: found.score for found in ranked}))
