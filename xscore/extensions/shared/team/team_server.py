"""What a team's server is asked, over one connection: whose login this is, new entries, storing and
erasing one's own, and counts.

Contents are encrypted before they come here. Every statement names project and login alone: whose
rows it sees is the server's to decide, by row-level security. Trade-off: a page of entries is one
answer, so a first pull of thousands takes several.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from xscore.extensions.shared.team.address import TeamAddress, not_prepared
from xscore.platform.errors import SharedUnavailable

if TYPE_CHECKING:
    import psycopg

CLIENT_SCHEMA = 1
"""The version of the schema that this client supports."""
PAGE = 1_000
CLOSED_SINCE = 2
"""The first schema with repositories that are closed to some members."""
_HELLO = """
    SELECT version.number, version.serves_from,
        xscore_team.current_organisation(), xscore_team.current_member(),
        project.epoch, project.version, to_jsonb(project.*) ->> 'pruned'
    FROM xscore_team.version LEFT JOIN xscore_team.project ON project.project = %s
"""
"""`pruned` is a column since schema 3; in an older one it is NULL."""
_IS_CLOSED = "SELECT %s = ANY (xscore_team.closed_to_me())"
PAGE_BYTES = 16_000_000
"""Most content of one page; a single entry may be longer. A page of the longest entries would
fill the memory of every member."""
_PULL = """
    SELECT member, name, kind, version, content FROM (
        SELECT member, name, kind, version, content, row_number() OVER one_by_one AS place,
            sum(coalesce(octet_length(content), 0)) OVER one_by_one AS bytes
        FROM (
            SELECT member, name, kind, version, content FROM xscore_team.entry
            WHERE project = %s AND version > %s ORDER BY version LIMIT %s
        ) AS page WINDOW one_by_one AS (ORDER BY version)
    ) AS sized WHERE place = 1 OR bytes <= %s ORDER BY version
"""
_OWN = """
    SELECT name, sha256(content) FROM xscore_team.entry
    WHERE project = %s AND member = xscore_team.current_member() AND content IS NOT NULL
        AND (%s::text[] IS NULL OR name = ANY (%s::text[]))
"""
_PUT = "SELECT xscore_team.put_entries(%s, %s::text[], %s::text[], %s::bytea[])"
_NOTE_READER = "SELECT xscore_team.note_reader(%s, %s, %s)"
_READERS = """
    SELECT reader.member, reader.profile, reader.version, extract(epoch FROM reader.seen_at),
        (SELECT count(*) FROM xscore_team.entry
         WHERE entry.project = reader.project AND entry.member = reader.member
             AND content IS NOT NULL)
    FROM xscore_team.reader WHERE project = %s ORDER BY reader.seen_at DESC, reader.member
"""
_COUNTS = """
    SELECT count(*) FILTER (WHERE content IS NOT NULL AND kind = 'memory'),
        count(*) FILTER (WHERE content IS NOT NULL AND kind = 'checkpoint'),
        count(*) FILTER (WHERE content IS NULL), coalesce(sum(octet_length(content)), 0),
        count(*) FILTER (WHERE content IS NOT NULL AND created_at > now() - interval '30 days'),
        coalesce(sum(octet_length(content)) FILTER (WHERE created_at > now() - interval '30 days'),
            0)
    FROM xscore_team.entry WHERE project = %s
"""
_OF_OTHER_KEY = """
    SELECT count(*) FILTER (WHERE key_id = %s), count(*) FROM (
        SELECT substring(content FROM 2 FOR 4) AS key_id FROM xscore_team.entry
        WHERE content IS NOT NULL AND member <> xscore_team.current_member() LIMIT 10000
    ) AS of_others
"""
"""SQL of how many entries of colleagues this key encrypted, and how many there are. After its first
byte a content has the id of its key (`team_key`)."""
_LEAVE = """
    DELETE FROM xscore_team.reader WHERE project = %s AND member = xscore_team.current_member()
"""


class ServerGreeting(Struct, frozen=True):
    """Whose login this is, and how far the project is."""

    organisation: str
    member: str
    epoch: str
    """Epoch of the project, which is another one after the server was recreated; empty if
    nothing is shared yet."""
    version: int
    pruned: int = 0
    """Version up to which marks of erased entries may have been removed."""


class ServerEntry(Struct, frozen=True):
    """An entry as the server has it."""

    member: str
    name: str
    kind: str
    version: int
    content: bytes | None
    """Encrypted content; None if the entry was erased."""


class NewEntry(Struct, frozen=True):
    """An entry to be stored, or to be erased."""

    name: str
    kind: str
    content: bytes | None
    """Encrypted content; None: erase the entry."""


class ServerReader(Struct, frozen=True):
    """A member who has pulled from a project."""

    member: str
    profile: bytes
    version: int
    seen_at: float
    """Unix seconds on the server's clock."""
    entries: int
    """Number of entries that the member shares."""


class ServerCounts(Struct, frozen=True):
    """What a project takes on the server."""

    memories: int
    checkpoints: int
    erased: int
    bytes: int
    memories_of_30_days: int
    bytes_of_30_days: int


class TeamServer:
    """One project on the server, over an open connection."""

    def __init__(
        self, connection: "psycopg.Connection[Any]", *, address: TeamAddress, project: str
    ) -> None:
        """project: the repository's keyed digest."""
        self._connection = connection
        self._address = address
        self._project = project

    def greet(self) -> ServerGreeting:
        """Ask whose login this is.

        Raises SharedUnavailable for a schema that this client does not speak, for a login of no
        organisation, and for a repository that is closed to it.
        """
        rows = self._rows(_HELLO, self._project)
        if not rows:
            raise not_prepared(self._address)
        number, serves_from, organisation, member, epoch, version, pruned = rows[0]
        self._refuse_other_schema(number, serves_from)
        if not organisation:
            raise SharedUnavailable(
                f"the login on {self._address.name} belongs to no team",
                hint="An administrator adds it: `xscore shared init --login NAME`.",
            )
        # A repository that is closed to this login looks like one of which nothing is shared.
        if epoch is None and number >= CLOSED_SINCE:
            self._refuse_closed()
        return ServerGreeting(organisation, member, epoch or "", version or 0, int(pruned or 0))

    def _refuse_closed(self) -> None:
        ((is_closed,),) = self._rows(_IS_CLOSED, self._project)
        if is_closed:
            raise SharedUnavailable(
                f"this repository is closed to login {self._address.login} on"
                f" {self._address.name}",
                hint="An administrator grants it: `xscore shared access NAME --grant LOGIN`.",
            )

    def _refuse_other_schema(self, number: int, serves_from: int) -> None:
        # A newer server says which older clients it still serves.
        if serves_from > CLIENT_SCHEMA:
            raise SharedUnavailable(
                f"{self._address.name} was migrated by a newer xscore (schema {number}), which no"
                f" longer serves this one ({CLIENT_SCHEMA})",
                hint="Upgrade xscore. What was pulled before stays in use.",
            )
        if number < CLIENT_SCHEMA:
            raise SharedUnavailable(
                f"{self._address.name} has schema {number}, and this xscore needs {CLIENT_SCHEMA}",
                hint="An administrator runs `xscore shared init --apply`.",
            )

    def pull(self, since: int) -> list[ServerEntry]:
        """Return the next page of entries after this version, in order; one's own among them."""
        rows = self._rows(_PULL, self._project, since, PAGE, PAGE_BYTES)
        return [ServerEntry(*row) for row in rows]

    def own_digests(self, names: Sequence[str] | None = None) -> Mapping[str, bytes]:
        """Return the SHA-256 of the content of each entry that this member shares, by name.

        names: only of these; None: of all.
        """
        chosen = None if names is None else list(names)
        rows = self._rows(_OWN, self._project, chosen, chosen)
        return {name: bytes(digest) for name, digest in rows}

    def put(self, entries: Sequence[NewEntry]) -> int:
        """Store and erase entries, all or none; return the project's version."""
        names = [entry.name for entry in entries]
        kinds = [entry.kind for entry in entries]
        contents = [entry.content for entry in entries]
        (row,) = self._rows(_PUT, self._project, names, kinds, contents)
        return int(row[0])

    def note_reader(self, profile: bytes, version: int) -> None:
        """Note that this member has pulled up to this version."""
        self._rows(_NOTE_READER, self._project, profile, version)

    def readers(self) -> list[ServerReader]:
        """Return the members who have pulled, the latest first."""
        readers: list[ServerReader] = []
        for member, profile, version, seen_at, entries in self._rows(_READERS, self._project):
            readers.append(ServerReader(member, profile, version, float(seen_at), entries))
        return readers

    def counts(self) -> ServerCounts:
        """Count what the project takes."""
        (row,) = self._rows(_COUNTS, self._project)
        return ServerCounts(*map(int, row))

    def count_of_other_key(self, key_id: bytes) -> int:
        """Count what colleagues share in any repository, if none of it is encrypted by this key.

        A repository is named by the key, so that to another one it looks like one of which nothing
        is shared.
        """
        ((readable, count),) = self._rows(_OF_OTHER_KEY, key_id)
        return 0 if readable else int(count)

    def leave(self) -> None:
        """Forget that this member has pulled."""
        self._connection.execute(_LEAVE, (self._project,))

    def _rows(self, query: str, *terms: object) -> list[tuple[Any, ...]]:
        return self._connection.execute(query.encode(), terms).fetchall()
