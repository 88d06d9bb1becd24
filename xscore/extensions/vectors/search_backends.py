"""Open what `embedding.search` names: PostgreSQL with pgvector, a Qdrant server, or a folder for
Qdrant's engine in this process.

Nothing is connected and no driver is imported before the first request. A repository's own file
cannot set it, so a clone sends vectors nowhere. Trade-off: one setting names kind and place, so
that the two cannot contradict each other.
"""

from pathlib import Path
from urllib.parse import unquote, urlsplit

from xscore.extensions.shared.server import POSTGRES, displayed_url
from xscore.extensions.shared.transport import is_this_machine
from xscore.extensions.vectors.vector_search import VectorPartition, VectorSearch
from xscore.platform.errors import UsageError
from xscore.platform.extras import require_extra
from xscore.settings import Settings

QDRANT = "qdrant:"
_FORMS = (
    "Write postgresql://HOST/DATABASE, qdrant:https://HOST:6333, or qdrant:/FOLDER for Qdrant"
    " in this process; leave it empty to search in the store."
)
_PURPOSE = "embedding.search"


def search_server_name(settings: Settings) -> str:
    """Return what the settings name, without user and password; empty: the store is searched.

    Raises UsageError for what names no server.
    """
    text = settings.embedding.search.reveal()
    if not text:
        return ""
    try:
        name = _name(text)
    except ValueError:  # of a port or an address
        name = ""
    if not name:
        raise UsageError("embedding.search is not the address of a vector server", hint=_FORMS)
    return name


def _name(text: str) -> str:
    """Return the name; empty for what names no server. Raises ValueError."""
    if text.startswith(QDRANT):
        place = text.removeprefix(QDRANT)
        parts = urlsplit(place)
        if parts.scheme in ("http", "https") and parts.hostname:
            port = f":{parts.port}" if parts.port else ""
            return f"Qdrant at {parts.scheme}://{parts.hostname}{port}"
        if "//" in place or "@" in place:
            return ""  # an address in the wrong form, perhaps with a key
        folder = Path(place).expanduser()
        if folder.is_absolute():
            return f"Qdrant in {folder}"
    elif urlsplit(text).scheme in POSTGRES:
        # Another login sees none of this one's rows.
        login = unquote(urlsplit(text).username or "")
        return f"pgvector at {displayed_url(text)}, login {login or '(none)'}"
    return ""


def open_search(
    settings: Settings, partition: VectorPartition, *, timeout_s: float
) -> VectorSearch | None:
    """Return the search of the settings; None: the store itself.

    timeout_s: deadline of each request.
    Raises UsageError for what names none, for a server beyond this machine without TLS, and for a
    missing extra.
    """
    name = search_server_name(settings)
    text = settings.embedding.search.reveal()
    if not name:
        return None
    require_extra("vectors", "numpy", purpose=_PURPOSE)
    if not text.startswith(QDRANT):
        require_extra("pgvector", "psycopg", purpose=_PURPOSE)
        from xscore.extensions.vectors.pgvector import PgVectorSearch  # an extra

        return PgVectorSearch(text, partition, name=name, timeout_s=timeout_s)
    place = text.removeprefix(QDRANT)
    host = urlsplit(place).hostname
    if not host:
        require_extra("qdrant-edge", "qdrant_edge", purpose=_PURPOSE)
        from xscore.extensions.vectors.qdrant_folder import QdrantFolder  # an extra

        return QdrantFolder(place, partition, name=name)
    if not (place.startswith("https:") or is_this_machine(host)):
        raise UsageError(
            f"{name} is not on this machine, and http: would send your vectors in the clear",
            hint="Write qdrant:https://HOST:6333.",
        )
    require_extra("qdrant", "qdrant_client", purpose=_PURPOSE)
    from xscore.extensions.vectors.qdrant import QdrantSearch  # an extra

    return QdrantSearch(place, partition, name=name, timeout_s=timeout_s)
