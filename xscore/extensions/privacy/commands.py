"""The commands `memory delete | wipe` and `history delete`.

`erasure` decides which rows go with a memory, `erasure_report` says what went. Trade-off: the
question that is asked first makes a dry run, so an erasure is planned twice.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from xscore.cli.flags import Flags, command
from xscore.cli.memory import NARROWING, choice_of, is_narrow
from xscore.cli.options import DRY_RUN, YES, option, utc_time
from xscore.cli.settings_and_store import opened_store, read_settings
from xscore.extensions.privacy import erasure
from xscore.extensions.privacy.erasure_proof import verify_erasure
from xscore.extensions.privacy.erasure_report import ErasureReport, print_erasure, rows_along
from xscore.extensions.privacy.owed_erasures import settle_owed_erasures
from xscore.platform.errors import ExitCode, NothingMatched, UsageError
from xscore.platform.paths import decode_path_argument
from xscore.platform.text import counted
from xscore.records.memory import Layer
from xscore.records.reports import ServerErasure
from xscore.store.compressed_sessions import compressed_threads, forget_compressed
from xscore.store.imported_memories import imported_ids
from xscore.store.lookup import count_observations, wipeable_ids
from xscore.store.scrubbing import needs_scrubbing, scrub_database
from xscore.store.turn_history import find_erasable_turns, have_content

if TYPE_CHECKING:
    from xscore.settings import Settings
    from xscore.store.store import Store

DECLINED = 1
SCRUB_S = 5.0
ERASING = [
    option(
        "--verify",
        is_flag=True,
        help="Then search every file for the text; exit code 6 if found.",
    ),
    option("--here-only", is_flag=True, help="Do not contact the shared server."),
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
    "--from",
    "origin",
    metavar="AGENT",
    default="",
    help="Only exchanges imported from this agent.",
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
            ids = imported_ids(store.connection, session=session, origin=origin, before=before)
        else:
            ids = wipeable_ids(store, choice)
        notes = 0
        if users_whole:
            notes = count_observations(store.user_connection())
        wipes_sessions = choice.layers == (Layer.SESSION,) and not choice.kinds
        compressed: tuple[str, ...] = ()
        if wipes_sessions or (imported and before is None):
            compressed = compressed_threads(store.connection, session=session, origin=origin)
        if not (ids or notes or compressed):
            raise NothingMatched(
                "no memory matches",
                hint="`xscore memory stats` counts them; `xscore memory imported` lists sessions.",
            )
        along = _words_along(notes, compressed)
        subject = f"{counted(len(ids), 'memory', 'memories')}{along}"
        if not _may_go_on(f"Erase {subject} for good?", flags):
            return DECLINED
        if compressed and not flags.dry_run:
            # First: the erasure then rewrites the files.
            forget_compressed(store.connection, compressed)
        if compressed and not (ids or notes):
            return _report_forgotten(store, compressed, flags)
        return _erase_and_report(
            store, ids, flags, settings, forget=imported, with_observations=users_whole
        )


def _words_along(notes: int, compressed: Sequence[str]) -> str:
    """Say what goes in addition to the memories."""
    words = ""
    if notes:
        words += f" and {counted(notes, 'observation')} of your projects"
    if compressed:
        words += f" and what is kept of {counted(len(compressed), 'compressed session')}"
    return words


def _report_forgotten(store: "Store", threads: Sequence[str], flags: Flags) -> int:
    """Rewrite the files and say what is gone, where no memory was made of these sessions."""
    is_clean = flags.dry_run or scrub_database(store.connection, timeout_s=SCRUB_S)
    verb = "would erase" if flags.dry_run else "erased"
    sessions = counted(len(threads), "compressed session")
    text = f"{verb} what is kept of {sessions}"
    flags.terminal.print_result({"compressed_sessions": list(threads), "clean": is_clean}, text)
    return 0 if is_clean else ExitCode.STORE


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
        try:
            ids = find_erasable_turns(store.connection, names, before=before, now=store.clock())
        except NothingMatched:
            # An earlier call may have been killed before the files were rewritten.
            is_unfinished = any(map(needs_scrubbing, store.connections()))
            if names or flags.dry_run or not is_unfinished:
                raise
            ids = []
        question = "Finish an earlier erasure?"
        if ids:
            question = f"Erase {counted(len(ids), 'turn')} for good?"
        if not _may_go_on(question, flags):
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
    subject = counted(preview.memories, "memory", "memories")
    if along := rows_along(preview):
        subject += f" with {', '.join(along)}"
    return _may_go_on(f"Erase {subject} for good?", flags)


def _may_go_on(question: str, flags: Flags) -> bool:
    yes = flags.assume_yes or flags.dry_run
    return flags.terminal.confirm(question, yes=yes, otherwise="nothing was erased")


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
    # If an earlier call has erased it, nothing is left to search for.
    has_turns = bool(turns) and have_content(store.connection, turns)
    if flags.dry_run:
        done = erasure.preview_erasure(
            store, ids, turns=turns, with_observations=with_observations
        )
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
        if verify and (done.ids or has_turns or done.observations):
            proof = verify_erasure(store, lines)
    report = ErasureReport(
        done, proof, servers, turns, dry_run=flags.dry_run, verify=bool(verify)
    )
    return print_erasure(report, flags)
