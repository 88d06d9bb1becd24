"""Judge a frame: which tickets speak of lost payments? A CSV in, the same rows with scores out,
best first.

Usage: python judge_frame.py tickets.csv
Frames need polars, the extra `frames`.
"""

import sys

import polars as pl

import xscore

if len(sys.argv) != 2:
    sys.exit(__doc__)

tickets = pl.read_csv(sys.argv[1])  # columns: id, text

judged = xscore.judge("which tickets speak of lost payments?", tickets, max_usd=1)

scores = judged.select("score", "outcome", "cause")
table = pl.concat([tickets, scores], how="horizontal").sort(
    "score", descending=True, nulls_last=True
)
print(table.write_csv(), end="")
unjudged = table.filter(pl.col("outcome") == "unjudged").height
sys.exit(1 if unjudged else 0)
