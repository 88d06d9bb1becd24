"""A booster: what your team owns, by CODEOWNERS, ranks a little higher.

    [project.entry-points."xscore.boosters"]
    owned = "codeowners_booster:owned"

Then `XSCORE_PLUGINS_ENABLED=owned` and `TEAM=@shop/billing`. It runs in the root of the repository.
"""

import os
from fnmatch import fnmatch
from functools import cache
from pathlib import Path

from xscore.pipeline.boosts import BoostContext
from xscore.records.candidates import Candidate
from xscore.records.judgment import Boost


@cache
def rules() -> list[tuple[str, list[str]]]:
    """Read CODEOWNERS once: a pattern and its owners a line, the last match counts."""
    lines = Path("CODEOWNERS").read_text("utf-8").splitlines()
    parts = [line.split() for line in lines if line.strip() and not line.startswith("#")]
    return [(pattern.strip("/"), owners) for pattern, *owners in reversed(parts)]


def owned(candidate: Candidate, around: BoostContext) -> Boost | None:
    """Lift a candidate whose file the team owns; None leaves it as it is."""
    team = os.environ["TEAM"]
    for pattern, owners in rules():
        if fnmatch(candidate.path, pattern) or candidate.path.startswith(f"{pattern}/"):
            return Boost("owned", 0.05, f"{team} owns {pattern}") if team in owners else None
    return None
