"""A turn, watched: each event is printed as it comes; Ctrl-C ends it with a receipt, and keeps what
was paid for.

Usage: python turn_events.py "where are carts priced?"
"""

import sys

import xscore
from xscore.records.events import AnswerText, Kept, Note, Progress, StageBegan

if len(sys.argv) != 2:
    sys.exit(__doc__)

with xscore.open(".", max_usd=1) as repository:
    for event in repository.stream(sys.argv[1]):
        match event:
            case StageBegan(name=name):
                print(f"— {name}")
            case Progress(candidates=total, cached=cached, judged=judged):
                print(f"  {cached + judged} of {total} scored")
            case Kept(ranked=ranked):
                print(
                    "\n".join(
                        f"  {one.score:.2f} {one.candidate.path} {one.candidate.entity}"
                        for one in ranked
                    )
                )
            case AnswerText(text=text):
                print(text, end="", flush=True)
            case Note(text=text):
                print(f"  {text}", file=sys.stderr)
            case xscore.Answer(coverage=counts):
                print(
                    f"\n{counts.judged} judged, {counts.cached} cached, {counts.unjudged} unjudged"
                )
