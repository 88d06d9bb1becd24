"""Chat with your notes: xscore stores what you tell it in a folder without git, and answers
questions from it.

> /remember Ann prefers to be called after six
> when do I call her?

Usage: python general_memories.py ~/notes
"""

import sys

import xscore

if len(sys.argv) != 2:
    sys.exit(__doc__)

with xscore.open(sys.argv[1], max_usd=0.10) as notes:
    for line in sys.stdin:
        command, _, text = line.strip().partition(" ")
        match command:
            case "/remember":
                print(notes.remember(text, metadata={"channel": "chat"}))
            case "/forget":
                notes.forget(text)
            case "":
                continue
            case _:
                answer = notes.ask(line.strip(), about={"customer": "Ann"})
                for memory in answer.selected:
                    print(f"  {memory.score:.2f} {memory.id} {memory.reason}")
                print(
                    answer.answer or "No model answers here; above is what it would be shown."
                )
