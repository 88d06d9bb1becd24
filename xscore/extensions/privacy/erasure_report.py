"""What `memory delete`, `memory wipe` and `history delete` print: what went with the memories, and
what was proven.

Each place that was not searched is named. Trade-off: only the first of many ids are listed;
`--json` has them all.
"""

from collections.abc import Sequence
from typing import NamedTuple

from msgspec.structs import fields

from xscore.cli.flags import Flags
from xscore.extensions.privacy.erasure import Erasure
from xscore.extensions.privacy.erasure_proof import ErasureProof
from xscore.extensions.privacy.owed_erasures import LEFT_ON_PURPOSE
from xscore.pipeline.json_form import record_json, to_json
from xscore.platform.errors import NothingMatched
from xscore.platform.text import counted, one_line
from xscore.records.reports import ServerErasure
from xscore.store.line_search import SHORTEST

ERASURE_NOT_VERIFIED = 6
IDS_SHOWN = 20
_STILL_READ = (
    "another process reads the store and keeps its journal, which still holds the text: end that"
    " process, then run the same command again"
)


class ErasureReport(NamedTuple):
    """What one command did."""

    done: Erasure
    proof: ErasureProof | None
    servers: tuple[ServerErasure, ...]
    turns: Sequence[str]
    dry_run: bool
    verify: bool = False
    """Whether a proof was asked for."""

    @property
    def is_finished(self) -> bool:
        """Whether this call completed an earlier erasure."""
        return self.done.is_finished or bool(self.servers)

    @property
    def exit_code(self) -> int:
        """Return 0 where everything was erased, and proven where a proof was wanted."""
        for server in self.servers:
            if server.left or server.problem not in ("", LEFT_ON_PURPOSE):
                return ERASURE_NOT_VERIFIED
        is_proven = self.proof is None or self.proof.holds
        if self.done.is_clean and is_proven:
            return 0
        return ERASURE_NOT_VERIFIED


def print_erasure(report: ErasureReport, flags: Flags) -> int:
    """Print what went; return the exit code. Raises NothingMatched where there was nothing."""
    done = report.done
    proof = report.proof
    terminal = flags.terminal
    missing = f"there is no memory {_listed(done.missing)}"
    did_something = bool(done.ids or report.turns or done.observations)
    if not did_something and done.is_clean and not report.is_finished:
        raise NothingMatched(missing, hint="`xscore memory list` shows IDs; they are exact.")
    details = {
        "turns": list(report.turns),
        "dry_run": report.dry_run,
        "proof": record_json(proof) if proof else None,
        "servers": [record_json(server) for server in report.servers],
    }
    terminal.print_result(to_json(done) | details, _render_erasure(report))
    if done.missing:
        terminal.note(missing)
    if done.earlier:
        terminal.note(
            f"superseded memories that led to these stay: {_listed(done.earlier)} (--earlier"
            " erases them too)"
        )
    if not done.is_clean:
        terminal.note(f"not clean yet: {_STILL_READ}")
    elif proof and proof.found_in:
        files = _listed(proof.found_in)
        terminal.note(
            f"still in the bytes of {files}: this is a bug in xscore; please report it"
        )
    elif proof is None and report.verify and not report.dry_run:
        terminal.note("nothing of it was left to search for: an earlier call erased it")
    elif proof and not (proof.lines or proof.still_said):
        terminal.note(
            f"not verified: no line of it has {SHORTEST} characters, and shorter ones cannot be"
            " searched for"
        )
    terminal.notes(_server_note(server) for server in report.servers)
    return report.exit_code


def _server_note(server: ServerErasure) -> str:
    name = one_line(server.server)
    if server.problem == LEFT_ON_PURPOSE:
        return f"{_held(server)} at {name} stay there (--here-only)"
    if server.problem:
        return (
            f"not erased at {name}: {server.problem}. Its {_held(server)} are still there;"
            " any later erasure here asks it again, --here-only gives it up"
        )
    if server.left:
        returned = counted(server.left, server.noun, server.plural)
        return (
            f"{returned} reappeared at {name} meanwhile: someone is judging the same memories"
        )
    return ""


def _held(server: ServerErasure) -> str:
    """Name what a server holds of erased memories."""
    if server.is_vectors:
        return "vectors"
    return "entries of the team" if server.is_team else "judgments and reasons"


def _render_erasure(report: ErasureReport) -> str:
    done = report.done
    erased, removed = "erased", "removed"
    if report.dry_run:
        erased, removed = "would erase", "would remove"
    lines = []
    if report.turns:
        lines.append(f"{erased} {counted(len(report.turns), 'turn')}: {_listed(report.turns)}")
    if done.ids or not (report.turns or done.is_finished):
        memories = counted(done.memories, "memory", "memories")
        lines.append(f"{erased} {memories}: {_listed(done.ids)}")
    if along := rows_along(done):
        lines.append(f"  with {', '.join(along)}")
    if done.shared:
        shared = counted(done.shared, "content")
        lines.append(f"  {shared} shared with other memories: their judgments stay")
    for place in done.asides:
        lines.append(f"  {removed} {one_line(place)}, which holds the text")
    if done.is_finished:
        lines.append("completed an erasure that had been cut short: the files were rewritten")
    lines += map(_removed_there, (server for server in report.servers if not server.problem))
    if report.proof:
        lines += _render_proof(report.proof, report.servers)
    return "\n".join(lines)


def _removed_there(server: ServerErasure) -> str:
    removed = counted(server.removed, server.noun, server.plural)
    reasons = "" if server.is_team or server.is_vectors else " with reasons"
    return f"removed {removed}{reasons} at {one_line(server.server)}"


def rows_along(done: Erasure) -> list[str]:
    """Return `3 receipts, 2 payloads`, each in its own words: what goes with memories or turns."""
    rows = []
    for field in fields(done):
        count = getattr(done, field.name)
        # A flag is an integer, too.
        if type(count) is int and count and field.name not in {"memories", "shared"}:
            rows.append(counted(count, field.name.removesuffix("s"), field.name))
    return rows


def _render_proof(proof: ErasureProof, servers: Sequence[ServerErasure]) -> list[str]:
    """List what was searched, what was found, and each place that was not searched."""
    word = "not verified"
    if proof.holds and proof.lines:
        word = "verified"
    result = "found none"
    if proof.found_in:
        result = f"found in {_listed(proof.found_in)}"
    searched = f"searched {counted(proof.files, 'file')} for {counted(proof.lines, 'line')}"
    lines = [f"{word}: {searched}, {result}"]
    if proof.still_said:
        lines[0] += (
            f", {proof.still_said:,} left out, since remaining memories or tasks contain them"
        )
    if proof.encrypted:
        lines.append(
            "  an encrypted store was rewritten and its rows were read: its raw bytes prove nothing"
        )
    if not proof.user_store_searched:
        lines.append("  not looked at: your own store, since memory.user_learning is off")
    for server in servers:
        name = one_line(server.server)
        if server.left is None:
            lines.append(f"  not looked at: {name}")
        else:
            lines.append(f"  asked {name} again: {server.left:,} left")
    return lines


def _listed(names: Sequence[str]) -> str:
    listed = ", ".join(map(one_line, names[:IDS_SHOWN]))
    if len(names) > IDS_SHOWN:
        return f"{listed} and {len(names) - IDS_SHOWN:,} more"
    return listed
