"""A rubric of one's own: score answers of a support desk by how well they follow the house
rules."""

import sys

import xscore

RUBRIC = """You judge answers that a support desk wrote. Give an integer score from 0 to 100:
90-100: solves the problem, names the next step, promises nothing.
40-69: correct, but the customer has to ask again.
0-39: wrong, rude, or promises a refund."""

answers = [
    {"id": number, "text": line} for number, line in enumerate(sys.stdin.read().splitlines())
]
judged = xscore.judge(
    "How well does this answer follow the house rules?", answers, rubric=RUBRIC, max_usd=1
)

for row in sorted(judged, key=lambda row: -(row.score or 0)):
    print(f"{row.id}  {row.score if row.score is not None else row.cause}  {row.reason}")
print(judged.receipt, file=sys.stderr)
