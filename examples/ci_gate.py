"""A gate for CI: fail where a question no longer finds the files that answer it, or a turn costs
too much.

questions.jsonl: {"task": "Where is a refund written?", "finds": ["src/refund.py"]}
"""

import json
import sys
from decimal import Decimal
from pathlib import Path

import xscore

MAX_USD = Decimal("0.10")
failed = []

with xscore.open(".", max_usd=MAX_USD) as repository:
    for line in Path("questions.jsonl").read_text("utf-8").splitlines():
        question = json.loads(line)
        answer = repository.context(question["task"])
        found = {memory.path for memory in answer.selected}
        missing = sorted(set(question["finds"]) - found)
        if missing or answer.coverage.unjudged:
            failed.append(
                f"{question['task']}: missing {missing}, {answer.coverage.unjudged} unjudged"
            )

print("\n".join(failed) or "every question finds its files")
sys.exit(5 if failed else 0)
