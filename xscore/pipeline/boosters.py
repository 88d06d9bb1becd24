"""The boosters of a turn, by name: our own, and those of packages that the user installed and named.

Names stand in `boosts.boosters`, which a repository's file may not set, so no clone can have code loaded. A booster is
a function `(Candidate, Surroundings) -> Boost | None`; the rules that bind all of them (floor, cap, no chaining) are
`boosts`'. Trade-off: installed packages are searched only for names that are not ours, because the search costs a
tenth of a second.
"""

from collections.abc import Sequence

from xscore.errors import UsageError
from xscore.pipeline.boosts import BOOSTERS, Booster

GROUP = "xscore.boosters"
OURS: dict[str, Booster] = {booster.__name__: booster for booster in BOOSTERS}
"""Same names and places as the package's own entry points."""


def boosters(names: Sequence[str]) -> tuple[Booster, ...]:
    """Return the boosters of these names. Raises UsageError for a name that nobody serves."""
    return tuple(OURS[name] if name in OURS else _installed(name) for name in names)


def _installed(name: str) -> Booster:
    from importlib.metadata import entry_points

    found = {entry.name: entry for entry in entry_points(group=GROUP)}
    if name not in found:
        known = ", ".join(sorted({*OURS, *found}))
        raise UsageError(f"boosts.boosters names `{name}`, which no installed package has", hint=f"Known: {known}.")
    booster: Booster = found[name].load()
    return booster
