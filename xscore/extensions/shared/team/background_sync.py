"""Exchange memories in a background process, which leaves what came in the store.

It is `xscore shared sync` with this turn's own settings. A turn starts it where the exchange would
cost the turn more than it is worth: the driver is not imported, the server is some hops away, or it
says nothing. What it pulls is there for the next turn, which also says what went wrong. Trade-off:
a process of its own takes half a second of CPU, at most once a minute.
"""

from msgspec.structs import replace

from xscore.extensions.shared.team.address import memories_address
from xscore.extensions.shared.team.membership import read_membership, write_membership
from xscore.platform import database
from xscore.platform.detached import start_xscore
from xscore.settings.model import SharedSettings
from xscore.store.store import Store

FOR_NEXT_TURN = "_XSCORE_FOR_NEXT_TURN"
"""Environment variable of a process that a turn has started: the next turn says what went wrong."""


def start_background_sync(store: Store, settings: SharedSettings, *, is_slow: bool) -> None:
    """Start the process. is_slow: the exchange took longer than a turn waits.

    Raises UsageError for a setting of the server that is wrong, and OSError.
    """
    memories_address(settings)  # said in this turn: nobody sees what the process says
    with database.transaction(store.connection):
        membership = read_membership(store.connection)
        if membership is None:
            return
        # Noted first: the process may be over before this one writes again.
        started = replace(
            membership,
            background_sync_at=store.clock(),
            is_slow=is_slow or membership.is_slow,
        )
        write_membership(store.connection, started)
    variables = sync_variables(settings)
    if store.user_data_dir is not None:
        variables["XSCORE_STORE_USER_DATA_DIR"] = str(store.user_data_dir)
    variables[FOR_NEXT_TURN] = "1"
    start_xscore(["shared", "sync"], folder=store.root.path, variables=variables)


def sync_variables(settings: SharedSettings) -> dict[str, str]:
    """Return the settings of an exchange as variables: this turn's may come from flags or
    Python."""
    variables = {
        "XSCORE_SHARED_MEMORIES": settings.memories,
        "XSCORE_SHARED_MEMORIES_URL": settings.memories_url.reveal() or settings.url.reveal(),
        "XSCORE_SHARED_KINDS": ",".join(settings.kinds),
        "XSCORE_SHARED_TIMEOUT_S": str(settings.timeout_s),
    }
    if settings.key.reveal():
        variables["XSCORE_SHARED_KEY"] = settings.key.reveal()
    if settings.key_file is not None:
        variables["XSCORE_SHARED_KEY_FILE"] = str(settings.key_file.absolute())
    return variables
