"""litellm: `batch_completion`, one prompt a candidate. Arguments: base URL, result file, calls in
flight.

It hands back replies and exceptions in a list; what follows is what any user of it has to write:
the reply is parsed strictly, and what cannot be parsed is no score. `cached`: with its disk cache.
"""

import json
import sys
from pathlib import Path

import candidates
import litellm

url, result, workers = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
if "cached" in sys.argv[4:]:
    from litellm.caching.caching import Cache

    litellm.cache = Cache(type="disk", disk_cache_dir=str(result.parent / "litellm"))
ASKED = 'Reply with {"score": N}, N from 0 (unrelated) to 100 (must be read), and nothing else.'
prompts = [
    [
        {"role": "system", "content": ASKED},
        {"role": "user", "content": f"{candidates.text(number)}\n\nTask: {candidates.TASK}"},
    ]
    for number in range(candidates.COUNT)
]
replies = litellm.batch_completion(
    model="openai/bench",
    messages=prompts,
    api_base=url,
    api_key="none",
    max_workers=workers,
    num_retries=candidates.RETRIES,
)
scores: dict[str, int | None] = {}
for number, reply in enumerate(replies):
    try:
        scores[str(number)] = int(json.loads(reply.choices[0].message.content)["score"])
    except (AttributeError, KeyError, TypeError, ValueError):
        scores[str(number)] = None
result.write_text(json.dumps(scores))
