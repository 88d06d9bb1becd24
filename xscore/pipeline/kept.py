"""Judgments of a turn from wherever they are kept: in the repository's store, or in the user's about their own."""

from collections.abc import Iterable, Mapping

from xscore.cache.judgments import Judgments
from xscore.memory.store import Store
from xscore.records import Judgment


def known(store: Store, turn_key: str, judge: str) -> Mapping[str, Judgment]:
    """Return every judgment of this turn by this judge (its key), by content hash. Raises StoreDamaged."""
    connections = store.connections_of_a_turn()
    found, *others = [Judgments(connection).known_under(turn_key, judge) for connection in connections]
    for other in others:
        found |= other
    return found


def reasons(store: Store, turn_key: str, judge: str, hashes: Iterable[str]) -> Mapping[str, str]:
    """Return the reasons kept for these contents, by content hash, where there are any."""
    wanted, found = list(hashes), dict[str, str]()
    for connection in store.connections_of_a_turn() if wanted else ():
        found |= Judgments(connection).reasons(turn_key, judge, wanted)
    return found
