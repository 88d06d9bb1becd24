"""LOTUS: `DataFrame.sem_filter` as its documentation shows it. Arguments: base URL, result file,
calls in flight.

`sentence_transformers` and torch, 3 GB which only LOTUS's embedding operators use, are replaced
by empty modules; so LOTUS is not charged for importing them.
"""

import json
import sys
import types
from pathlib import Path

import candidates
import pandas as pd

for name in ("torch", "sentence_transformers"):
    stand_in = types.ModuleType(name)
    stand_in.__dict__.update(Tensor=object, CrossEncoder=object, SentenceTransformer=object)
    sys.modules[name] = stand_in

import lotus  # noqa: E402  importing it loads torch, so the stand-in above comes first
from lotus.cache import CacheConfig, CacheFactory, CacheType  # noqa: E402  importing it loads torch, so the stand-in above comes first
from lotus.models import LM  # noqa: E402  importing it loads torch, so the stand-in above comes first

url, result, workers = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
cached = "cached" in sys.argv[4:]
cache = None
if cached:
    config = CacheConfig(
        cache_type=CacheType.SQLITE, max_size=10_000, cache_dir=str(result.parent / "lotus")
    )
    cache = CacheFactory.create_cache(config)
model = LM(
    model="openai/bench",
    api_base=url,
    api_key="none",
    max_batch_size=workers,
    cache=cache,
    num_retries=candidates.RETRIES,
)
lotus.settings.configure(lm=model, enable_cache=cached)
numbers = list(range(candidates.COUNT))
frame = pd.DataFrame(
    {"number": numbers, "code": [candidates.text(number) for number in numbers]}
)
kept = frame.sem_filter(f"{{code}} is needed to answer: {candidates.TASK}")
passed = set(kept["number"].tolist())
result.write_text(json.dumps({str(number): number in passed for number in numbers}))
