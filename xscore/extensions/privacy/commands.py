"""The commands `memory delete | wipe`, `history delete` and `store encrypt | decrypt`.

`erasure` decides which rows go with a memory. A store is opened before it is converted, to check
that it is trusted.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click
from msgspec.structs import fields

from xscore.cli.memory import NARROWING, choice_of, is_narrow
from xscore.cli.opening import opened_store, read_settings
from xscore.cli.options import DRY_RUN, YES, Flags, command, option, utc_time
from xscore.extension import load
from xscore.extensions.privacy import encryption, erasure
from xscore.extensions.privacy.erasure_rows import LEFT_ON_PURPOSE, settle_owed_erasures
from xscore.pipeline.json_form import record_json, to_json
from xscore.platform.errors import NothingMatched, UsageError
from xscore.platform.paths import decode_path_argument, find_root, refuse_wide_folder, user_data_dir
from xscore.platform.text import counted, one_line
from xscore.records.reports import ServerErasure
from xscore.store import opening
from xscore.store.line_search import SHORTEST
from xscore.store.lookup import count_observations, wipeable_ids
from xscore.store.turn_history import find_erasable_turns

if TYPE_CHECKING:
    from xscore.settings import Settings
    from xscore.store.store import Store

ERASURE_NOT_VERIFIED = 6
DECLINED = 1
IDS_SHOWN = 20
_STILL_READ = (
    "another process reads the store and keeps its journal, which still holds the text: end that"
    " process, then run the same command again"
)
ERASING = [
    option(
        "--verify", is_flag=True, help="Then search every file for the text; exit code 6 if found."
    ),
    option("--here-only", is_flag=True, help="Do not contact the shared server."),
]
WHICH_STORE = [
    option("--user", is_flag=True, help="Your own store instead of the one of this repository."),
    option("--all", "both", is_flag=True, help="Both."),
]


@command(DRY_RUN, ERASING, YES)
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
@click.option("--earlier", is_flag=True, help="Also the superseded memories that led to these.")
def delete_memories(ids: tuple[str, ...], earlier: bool, flags: Flags) -> int:
    """Erase the memories with these exact IDs, and whatever was made with them.

    Judgments, reasons, vectors, receipts, stored answers, exchanges, checkpoints, events: no file
    holds the text afterwards. Memories of files are refused: exclude the file instead. Asks first.
    """
    settings = read_settings(flags).settings
    with opened_store(flags, settings=settings) as store:
        chosen = dict.fromkeys(ids)
        if earlier:
            chosen |= dict.fromkeys(erasure.preview_erasure(store, ids).earlier)
        if not _may_erase_memories(store, list(chosen), flags):
            return DECLINED
        return _erase_and_report(store, list(chosen), flags, settings)


@command(NARROWING, DRY_RUN, ERASING, YES)
@click.option(
    "--from", "origin", metavar="AGENT", default="", help="Only exchanges imported from this agent."
)
@click.option(
    "--session", metavar="S", default="", help="Only exchanges imported from this session."
)
@click.option(
    "--before",
    metavar="TIME",
    type=utc_time,
    help="Only exchanges imported before TIME (2026-11-01, 90d).",
)
def wipe_memories(*, origin: str, session: str, before: float | None, flags: Flags) -> int:
    """Erase every memory of a layer, scope or kind for good, and whatever was made with them.

    Wiping your own layer (`--scope user`) also erases what your projects noted about you. Memories
    of files stay: exclude the files, or remove the store. --from, --session and --before erase
    imported exchanges, which no import brings back; the agents' own files stay. Several options
    narrow it down. Asks first.
    """
    imported = bool(origin or session or before is not None)
    choice = choice_of(flags)
    if imported and is_narrow(flags):
        raise UsageError(
            "--from, --session and --before apply only to imported memories",
            hint="Leave out --layer, --scope, --kind.",
        )
    users_whole = not imported and choice.is_users_whole
    settings = read_settings(flags).settings
    with opened_store(flags, settings=settings) as store:
        if imported:
            find = load("xscore.extensions.sessions.importing:imported_ids")
            ids = find(store.connection, session=session, origin=origin, before=before)
        else:
            ids = wipeable_ids(store, choice)
        notes = 0
        if users_whole:
            notes = count_observations(store.user_connection())
        if not (ids or notes):
            raise NothingMatched(
                "no memory matches",
                hint="`xscore memory stats` counts them; `xscore memory imported` lists sessions.",
            )
        with_notes = ""
        if notes:
            with_notes = f" and {counted(notes, 'observation')} of your projects"
        if not _may_erase(f"{counted(len(ids), 'memory', 'memories')}{with_notes}", flags):
            return DECLINED
        return _erase_and_report(
            store, ids, flags, settings, forget=imported, with_observations=users_whole
        )


@command(DRY_RUN, ERASING, YES)
@click.argument("turns", metavar="T...", nargs=-1)
@click.option(
    "--before",
    metavar="TIME",
    type=utc_time,
    help="Also all turns begun before TIME (2026-11-01, 90d).",
)
def delete_turns(turns: tuple[str, ...], before: float | None, flags: Flags) -> int:
    """Erase past turns for good: question, answer, receipt, reasons, and the exchanges they became.
    Asks first.

    T is an ID, the beginning of one, or `latest`. Scores stay, since they hold no word of the
    question, and so do the ledger's figures.
    """
    if not turns and before is None:
        raise UsageError(
            "no turn was named",
            hint="Name them, or give --before; `xscore history list` lists them.",
        )
    settings = read_settings(flags).settings
    with opened_store(flags, make=False, settings=settings) as store:
        names = list(map(decode_path_argument, turns))
        ids = find_erasable_turns(store.connection, names, before=before, now=store.clock())
        if not _may_erase(counted(len(ids), "turn"), flags):
            return DECLINED
        return _erase_and_report(store, [], flags, settings, turns=ids)


def _may_erase_memories(store: "Store", ids: Sequence[str], flags: Flags) -> bool:
    """Ask, and say what goes along; without a question where nothing matches or an earlier erasure
    is completed."""
    if flags.assume_yes or flags.dry_run:
        return True
    preview = erasure.preview_erasure(store, ids)
    if not preview.ids:
        return True
    along = ", ".join(_rows_along(preview))
    memories = counted(preview.memories, "memory", "memories")
    return _may_erase(f"{memories} with {along}" if along else memories, flags)


def _may_erase(subject: str, flags: Flags) -> bool:
    yes = flags.assume_yes or flags.dry_run
    return flags.terminal.confirm(
        f"Erase {subject} for good?", yes=yes, otherwise="nothing was erased"
    )


def _erase_and_report(
    store: "Store",
    ids: Sequence[str],
    flags: Flags,
    settings: "Settings",
    *,
    turns: Sequence[str] = (),
    forget: bool = False,
    with_observations: bool = False,
) -> int:
    """Erase, or say what would go; return the exit code. Raises NothingMatched, UsageError,
    StoreError.

    forget: no import brings them back.
    with_observations: with all that projects noted in the user's store.
    """
    proof = None
    verify = flags.given["verify"]
    servers: tuple[ServerErasure, ...] = ()
    if flags.dry_run:
        done = erasure.preview_erasure(store, ids, turns=turns, with_observations=with_observations)
    else:
        lines: frozenset[str] = frozenset()
        if verify:
            lines = erasure.erased_lines(
                store, ids, turns=turns, with_observations=with_observations
            )
        done = erasure.erase_memories(
            store,
            ids,
            turns=turns,
            now=store.clock(),
            forget=forget,
            with_observations=with_observations,
        )
        servers = settle_owed_erasures(
            store.connection, settings, verify=verify, here_only=flags.given["here_only"]
        )
        # Of what an earlier call erased no text is left.
        if verify and (done.ids or turns or done.observations):
            proof = erasure.verify_erasure(store, lines)
    return _print_erasure(_Report(done, proof, servers, turns, dry_run=flags.dry_run), flags)


class _Report(NamedTuple):
    done: erasure.Erasure
    proof: erasure.ErasureProof | None
    servers: tuple[ServerErasure, ...]
    turns: Sequence[str]
    dry_run: bool

    @property
    def is_finished(self) -> bool:
        """Whether this call completed an earlier erasure."""
        return self.done.is_finished or bool(self.servers)

    @property
    def exit_code(self) -> int:
        """Return 0 where everything was erased, and proven where a proof was wanted."""
        reached = all(
            not server.left and server.problem in ("", LEFT_ON_PURPOSE) for server in self.servers
        )
        proven = self.proof is None or self.proof.holds
        if self.done.is_clean and reached and proven:
            return 0
        return ERASURE_NOT_VERIFIED


def _print_erasure(report: _Report, flags: Flags) -> int:
    done = report.done
    proof = report.proof
    terminal = flags.terminal
    missing = f"there is no memory {_listed(done.missing)}"
    if (
        not (done.ids or report.turns or done.observations)
        and done.is_clean
        and not report.is_finished
    ):
        raise NothingMatched(missing, hint="`xscore memory list` shows IDs; they are exact.")
    details = {
        "turns": list(report.turns),
        "dry_run": report.dry_run,
        "proof": record_json(proof) if proof else None,
        "servers": [record_json(server) for server in report.servers],
    }
    terminal.print_result(to_json(done) | details, _render_erasure(report))
    earlier = (
        f"superseded memories that led to these stay: {_listed(done.earlier)} (--earlier erases"
        " them too)"
    )
    terminal.notes([missing if done.missing else "", earlier if done.earlier else ""])
    if not done.is_clean:
        terminal.note(f"not clean yet: {_STILL_READ}")
    elif proof and proof.found_in:
        files = _listed(proof.found_in)
        terminal.note(f"still in the bytes of {files}: this is a bug of xscore; please report it")
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
        return f"judgments and reasons at {name} stay there (--here-only)"
    if server.problem:
        return (
            f"not erased at {name}: {server.problem}. Its judgments and reasons are still there;"
            " any later erasure here asks it again, --here-only gives it up"
        )
    if server.left:
        returned = counted(server.left, "judgment")
        return f"{returned} reappeared at {name} meanwhile: someone is judging the same memories"
    return ""


def _render_erasure(report: _Report) -> str:
    done = report.done
    turns = report.turns
    erased, removed = ("would erase", "would remove") if report.dry_run else ("erased", "removed")
    along = _rows_along(done)
    lines = [f"{erased} {counted(len(turns), 'turn')}: {_listed(turns)}"] if turns else []
    if done.ids or not turns:
        lines.append(
            f"{erased} {counted(done.memories, 'memory', 'memories')}: {_listed(done.ids)}"
        )
    lines += [f"  with {', '.join(along)}"] if along else []
    shared = (
        f"  {counted(done.shared, 'content')} shown by other memories too: their judgments stay"
    )
    lines += [shared] if done.shared else []
    lines += [f"  {removed} {one_line(place)}, which holds the text" for place in done.asides]
    if done.is_finished:
        lines.append("completed an erasure that had been cut short: the files are rewritten")
    for server in report.servers:
        if not server.problem:
            removed_there = counted(server.removed, "judgment")
            lines.append(f"removed {removed_there} with reasons at {one_line(server.server)}")
    return "\n".join(
        [*lines, *(_render_proof(report.proof, report.servers) if report.proof else ())]
    )


def _rows_along(done: erasure.Erasure) -> list[str]:
    """Return `3 receipts, 2 payloads`, each in its own words: what goes with memories or turns."""
    rows = {}
    for field in fields(done):
        if field.name not in {"memories", "shared"} and type(getattr(done, field.name)) is int:
            rows[field.name] = getattr(done, field.name)
    return [counted(count, name.removesuffix("s"), name) for name, count in rows.items() if count]


def _render_proof(proof: erasure.ErasureProof, servers: Sequence[ServerErasure]) -> list[str]:
    """List what was searched, what was found, and each place that was not searched."""
    searched = f"searched {counted(proof.files, 'file')} for {counted(proof.lines, 'line')}"
    result = "found none"
    if proof.found_in:
        result = f"found in {_listed(proof.found_in)}"
    left_out = f", {proof.still_said:,} left out, since memories or tasks that stay say them"
    word = "not verified"
    if proof.holds and proof.lines:
        word = "verified"
    lines = [f"{word}: {searched}, {result}{left_out if proof.still_said else ''}"]
    if proof.encrypted:
        lines.append(
            "  an encrypted store was rewritten and its rows were read: its raw bytes prove nothing"
        )
    if not proof.user_store_searched:
        lines.append("  not looked at: your own store, since memory.user_learning is off")
    for server in servers:
        server_line = ""
        if server.left is not None:
            server_line = f"asked {one_line(server.server)} again: {server.left:,} left"
        lines.append(f"  {server_line or f'not looked at: {one_line(server.server)}'}")
    return lines


def _listed(names: Sequence[str]) -> str:
    rest = ""
    if len(names) > IDS_SHOWN:
        rest = f" and {len(names) - IDS_SHOWN:,} more"
    return ", ".join(map(one_line, names[:IDS_SHOWN])) + rest


@command(WHICH_STORE)
@click.option(
    "--drop-asides", is_flag=True, help="Remove set-aside stores, which would stay readable."
)
def encrypt(*, drop_asides: bool, flags: Flags) -> None:
    """Encrypt the store of this repository (AES-256); needs `xscore[crypt]`, and no other xscore at
    work on it.

    The key is made once, in the keyring, or in the file store.key of your data folder. Keep a copy
    of it elsewhere: without it the store cannot be read again.
    """
    user_data, paths = _opened_once(flags)
    done = []
    for path in paths:
        # First the copies: no plain one is ever beside an encrypted store.
        encryption.convert_copies(path, encryption.encrypt_store, user_data_dir=user_data)
        done.append(
            encryption.encrypt_store(path, user_data_dir=user_data, drop_asides=drop_asides)
        )
    _print_conversions(done, flags)
    if any(conversion.changed for conversion in done):
        flags.terminal.note(
            f"the key is in {one_line(done[0].key)}: without it this cannot be read again"
        )


@command(WHICH_STORE)
def decrypt(flags: Flags) -> None:
    """Write the store of this repository as a plain one again. The key stays where it is."""
    user_data, paths = _opened_once(flags)
    done = []
    for path in paths:
        done.append(encryption.decrypt_store(path, user_data_dir=user_data))
        encryption.convert_copies(path, encryption.decrypt_store, user_data_dir=user_data)
    _print_conversions(done, flags)


def _opened_once(flags: Flags) -> tuple[Path, list[Path]]:
    """Return the user's data folder and the chosen databases, made if missing, so that later rows
    are encrypted too."""
    settings = read_settings(flags).settings
    paths = list[Path]()
    user = flags.given["user"]
    both = flags.given["both"]
    user_data = user_data_dir(settings.store.user_data_dir)
    if both or not user:
        root = find_root(Path.cwd())
        refuse_wide_folder(root)
        encryption.restore_note(root.store_file, user_data_dir=user_data)
        opening.open_store(
            root.store_dir, user_data_dir=user_data, trust=settings.store.trust
        ).close()
        paths.append(root.store_file)
    if user or both:
        if not settings.memory.user_learning:
            raise UsageError(
                "your own store stays closed: `memory.user_learning` is false here",
                hint="Run it elsewhere, or turn the setting on in your own file.",
            )
        paths.append(opening.user_store_path(user_data))
        encryption.restore_note(paths[-1], user_data_dir=user_data)
        opening.open_user_store(user_data).close()
    return user_data, paths


def _print_conversions(done: list[encryption.Conversion], flags: Flags) -> None:
    lines = []
    for conversion in done:
        if conversion.is_encrypted:
            word = "encrypted"
        elif conversion.changed:
            word = "decrypted"
        else:
            word = "plain"
        lines.append(
            f"{word if conversion.changed else f'already {word}'}: {one_line(conversion.path)}"
        )
        lines += [
            f"  removed {one_line(place)}, which anyone could read" for place in conversion.removed
        ]
    flags.terminal.print_result(
        {"stores": [record_json(conversion) for conversion in done]}, "\n".join(lines)
    )
