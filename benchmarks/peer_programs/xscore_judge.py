"""xscore: `judge`, with its defaults but for the calls in flight. Arguments: base URL, result file,
calls in flight.

`single`: one item a prompt. An item without a score is written as null.
"""

import json
import os
import sys
from pathlib import Path

import candidates

import xscore

_, url, result, workers, *variant = sys.argv
os.environ |= {"OPENAI_BASE_URL": url, "XSCORE_JUDGE_CONCURRENCY": workers}
if "single" in variant:
    os.environ["XSCORE_JUDGE_PACK_SIZE"] = "1"
items = [{"id": number, "text": candidates.text(number)} for number in range(candidates.COUNT)]
found = xscore.judge(candidates.TASK, items, judge="openai:bench")
scores = {str(row.id): None if row.score is None else round(row.score * 100) for row in found}
Path(result).write_text(json.dumps(scores))
