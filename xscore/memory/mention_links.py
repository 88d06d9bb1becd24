"""Links of what was remembered to the code it names: `references` edges from decisions, failures, exchanges, …"""

import sqlite3
from collections.abc import Iterable


def link_mentions(connection: sqlite3.Connection, memory_ids: Iterable[str]) -> int:
    """Tie these memories to the files and entities that their text names; return how many edges they have now.

    Call it inside the transaction that put them, for memories that do not come from the index. What they named before
    and name no more is untied.
    """
    raise NotImplementedError
