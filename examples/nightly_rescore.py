"""Every night: judge what changed against the tasks that the team works on; the turns of the
morning are cached.

30 2 * * 1-5  cd ~/shop && python nightly_rescore.py tasks.txt
"""

import sys
from pathlib import Path

import xscore
from xscore.records.calls import Stage

if len(sys.argv) != 2:
    sys.exit(__doc__)

MAX_USD = "0.50"  # a turn; XSCORE_BUDGET_MAX_USD_DAY caps the night
tasks = Path(sys.argv[1]).read_text("utf-8").splitlines()

with xscore.open(".", max_usd=MAX_USD) as repository:
    for task in filter(None, tasks):
        receipt = repository.context(task, form="")
        counts = receipt.coverage
        print(
            f"{task}: {counts.judged} judged, {counts.cached} cached, {counts.unjudged} unjudged",
            end=", ",
        )
        print(f"${receipt.spent(Stage.JUDGE).cost_usd:.4f}")
        if receipt.exit_code:
            sys.exit(receipt.exit_code)  # 1 some unjudged, 3 the host failed, 4 a cap
