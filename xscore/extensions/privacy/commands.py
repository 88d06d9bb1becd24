"""`memory delete | wipe`, `history delete`, `store encrypt | decrypt`: what is erased for good, and files in cipher.

Which rows go along is decided in `erasure`; a store is opened once before it is converted, to see that it is yours.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
from msgspec.structs import fields

from xscore.cli.memory import NARROWING, choice_of
from xscore.cli.opening import in_store, read_settings
from xscore.cli.options import DRY_RUN, YES, Flags, Option, UtcTimeType, command, decode_path_argument, options
from xscore.extension import load
from xscore.pipeline.json_form import record_json, to_json
from xscore.platform.errors import NothingMatched, UsageError
from xscore.platform.text import counted, one_line

if TYPE_CHECKING:
    from xscore.extensions.privacy.encryption import Conversion
    from xscore.extensions.privacy.erasure import Erasure, ErasureProof
    from xscore.settings import Settings
    from xscore.store.store import Store

ERASURE_NOT_VERIFIED = 6
DECLINED = 1
IDS_SHOWN = 20
_STILL_READ = (
    "another process reads the store and keeps its journal, which still holds the text: end that process, then run the"
    " same command again"
)
VERIFY: dict[str, Option] = {
    "verify": click.option("--verify", is_flag=True, help="Then search every file for the text; exit code 6 if found.")
}
WHICH_STORE: dict[str, Option] = {
    "user": click.option("--user", is_flag=True, help="Your own store instead of the one of this repository."),
    "both": click.option("--all", "both", is_flag=True, help="Both."),
}


@command()
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
@click.option("--earlier", is_flag=True, help="Also the superseded memories that led to these.")
@options(DRY_RUN, VERIFY)
def delete_memories(ids: tuple[str, ...], earlier: bool, flags: Flags) -> int:
    """Erase the memories with these exact IDs for good, and whatever was made with them.

    Judgments, reasons, vectors, receipts, stored answers, exchanges, checkpoints, events: the text is nowhere in the
    files afterwards. Memories of files are refused: exclude the file instead.
    """

    def work(store: "Store") -> int:
        from xscore.extensions.privacy.erasure import preview_erasure

        wanted = dict.fromkeys(ids)
        if earlier:
            wanted |= dict.fromkeys(preview_erasure(store, ids).earlier)
        return erase_and_report(store, list(wanted), flags)

    return in_store(work, flags)


@command()
@click.option("--from", "origin", metavar="AGENT", default="", help="What was imported from this agent.")
@click.option("--session", metavar="S", default="", help="What was imported of this session.")
@click.option(
    "--before", metavar="TIME", type=UtcTimeType(), help="What was imported of before 2026-11-01, or 90d ago."
)
@options(NARROWING, DRY_RUN, VERIFY, YES)
def wipe_memories(*, origin: str, session: str, before: float | None, flags: Flags) -> int:
    """Erase every memory of a layer, scope or kind for good, and whatever was made with them.

    With your own layer (`--scope user`) goes what your projects noted of you. Memories of files stay: exclude the
    files, or remove the store. --from, --session and --before erase imported exchanges, which no import brings back;
    the agents' own files stay. Several options narrow it down. Asks first.
    """
    imported = bool(origin or session or before is not None)
    if imported and any(flags.given[name] for name in NARROWING):
        raise UsageError(
            "--from, --session and --before are of imported memories alone", hint="Leave out --layer, --scope, --kind."
        )

    def work(store: "Store") -> int:
        from xscore.store.lookup import count_observations, wipeable_ids

        if imported:
            find = load("xscore.extensions.sessions.imported_sessions:imported_ids")
            ids, notes = find(store.connection, session=session, origin=origin, before=before), 0
            hint = "See `xscore memory imported`; names are exact."
        else:
            choice = choice_of(flags)
            ids, hint = wipeable_ids(store, choice), "`xscore memory stats` counts memories by layer."
            notes = count_observations(store.user_connection()) if choice.is_users_whole else 0
        if not (ids or notes):
            raise NothingMatched("no memory matches", hint=hint)
        with_notes = f" and {counted(notes, 'observation')} of your projects" if notes else ""
        question = f"Erase {counted(len(ids), 'memory', 'memories')}{with_notes} for good?"
        yes = flags.assume_yes or bool(flags.given["dry_run"])
        if not flags.terminal.confirm(question, yes=yes, otherwise="nothing was erased"):
            return DECLINED
        users_whole = not imported and choice.is_users_whole
        return erase_and_report(store, ids, flags, forget=imported, with_observations=users_whole)

    return in_store(work, flags)


@command()
@click.argument("turns", metavar="T...", nargs=-1, required=True)
@options(DRY_RUN, VERIFY, YES)
def delete_turns(turns: tuple[str, ...], flags: Flags) -> int:
    """Erase past turns for good: question, answer, receipt, and the exchanges they became. Asks first.

    T is an ID, the beginning of one, or `latest`. Judgments stay, since they hold no word of the question, and so do
    the figures of the ledger: what was spent was spent.
    """

    def work(store: "Store") -> int:
        from xscore.store.turn_history import find_turn_id

        ids = list(dict.fromkeys(find_turn_id(store.connection, decode_path_argument(turn)) for turn in turns))
        yes = flags.assume_yes or bool(flags.given["dry_run"])
        if not flags.terminal.confirm(
            f"Erase {counted(len(ids), 'turn')} for good?", yes=yes, otherwise="nothing was erased"
        ):
            return DECLINED
        return erase_and_report(store, [], flags, turns=ids)

    return in_store(work, flags, make=False)


def erase_and_report(
    store: "Store",
    ids: Sequence[str],
    flags: Flags,
    *,
    turns: Sequence[str] = (),
    forget: bool = False,
    with_observations: bool = False,
) -> int:
    """Erase, or say what would go; return the exit code. Raises NothingMatched, UsageError, StoreError.

    forget: no import brings them back. with_observations: with all that projects noted in the user's store.
    """
    from xscore.extensions.privacy import erasure

    proof = None
    if flags.given["dry_run"]:
        done = erasure.preview_erasure(store, ids, turns=turns, with_observations=with_observations)
    else:
        verify = flags.given["verify"]
        lines = (
            erasure.erased_lines(store, ids, turns=turns, with_observations=with_observations)
            if verify
            else frozenset()
        )
        done = erasure.erase_memories(
            store, ids, turns=turns, now=store.clock(), forget=forget, with_observations=with_observations
        )
        proof = erasure.verify_erasure(store, lines) if verify else None
    return _print_erasure(done, proof, turns, flags)


def _print_erasure(done: "Erasure", proof: "ErasureProof | None", turns: Sequence[str], flags: Flags) -> int:
    if not (done.ids or turns or done.observations) and done.is_clean and not done.is_finished:
        raise NothingMatched(
            f"there is no memory {_listed(done.missing)}", hint="`xscore memory list` shows IDs; they are exact."
        )
    terminal, dry_run = flags.terminal, bool(flags.given["dry_run"])
    proven = record_json(proof) | {"holds": proof.holds} if proof else None
    terminal.print_result(
        to_json(done) | {"turns": list(turns), "dry_run": dry_run, "proof": proven},
        lambda _: render_erasure(done, proof, turns=turns, dry_run=dry_run),
    )
    if done.missing:
        terminal.note(f"there is no memory {_listed(done.missing)}")
    if done.earlier:
        terminal.note(
            f"superseded memories that led to these stay: {_listed(done.earlier)} (--earlier erases them too)"
        )
    if not done.is_clean:
        terminal.note(f"not clean yet: {_STILL_READ}")
    elif proof and proof.found_in:
        terminal.note(f"still in the bytes of {_listed(proof.found_in)}: this is a bug of xscore; please report it")
    return 0 if done.is_clean and (proof is None or proof.holds) else ERASURE_NOT_VERIFIED


def render_erasure(done: "Erasure", proof: "ErasureProof | None", *, turns: Sequence[str] = (), dry_run: bool) -> str:
    """Say what went, or would go, and what the search for it found."""
    erased, removed = ("would erase", "would remove") if dry_run else ("erased", "removed")
    rows = {
        field.name: getattr(done, field.name)
        for field in fields(done)
        if field.name not in {"memories", "shared"} and type(getattr(done, field.name)) is int
    }
    along = [counted(count, name.removesuffix("s"), name) for name, count in rows.items() if count]
    lines = [f"{erased} {counted(len(turns), 'turn')}: {_listed(turns)}"] if turns else []
    if done.ids or not turns:
        lines.append(f"{erased} {counted(done.memories, 'memory', 'memories')}: {_listed(done.ids)}")
    lines += [f"  with {', '.join(along)}"] if along else []
    if done.shared:
        contents = counted(done.shared, "content")
        lines.append(f"  {contents} shown by other memories too: their judgments stay")
    lines += [f"  {removed} {one_line(place)}, which holds the text" for place in done.asides]
    if done.is_finished:
        lines.append("completed an erasure that had been cut short: the files are rewritten")
    if proof:
        left_out = (
            f", {proof.still_said:,} left out, since memories or tasks that stay say them" if proof.still_said else ""
        )
        found = f"found in {_listed(proof.found_in)}" if proof.found_in else "found none"
        files = counted(proof.files, "file")
        lines.append(f"verified: searched {files} for {counted(proof.lines, 'line')}, {found}{left_out}")
        if proof.encrypted:
            lines.append("  an encrypted store was rewritten and its rows were read: its raw bytes prove nothing")
    return "\n".join(lines)


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - IDS_SHOWN:,} more" if len(names) > IDS_SHOWN else ""
    return ", ".join(map(one_line, names[:IDS_SHOWN])) + more


@command()
@click.option("--drop-asides", is_flag=True, help="Remove set-aside stores, which would stay readable.")
@options(WHICH_STORE)
def encrypt(*, drop_asides: bool, flags: Flags) -> None:
    """Encrypt the store of this repository (AES-256); needs `xscore[crypt]`, and no other xscore at work on it.

    The key is made once, in the keyring, or in the file store.key of your data folder. Keep a copy of it elsewhere:
    without it nobody can read the store again.
    """
    from xscore.extensions.privacy import encryption

    settings = read_settings(flags).settings
    user_data = _user_data(settings)

    def restore(path: Path) -> None:
        encryption.restore_note(path, user_data_dir=user_data)

    paths = _opened_once(settings, flags, first=restore)
    done = [encryption.encrypt_store(path, user_data_dir=user_data, drop_asides=drop_asides) for path in paths]
    _print_conversions(done, flags)
    if any(each.changed for each in done):
        flags.terminal.note(f"the key is in {one_line(done[0].key)}: without it nobody can read this again")


@command()
@options(WHICH_STORE)
def decrypt(flags: Flags) -> None:
    """Write the store of this repository as a plain one again. The key stays where it is."""
    from xscore.extensions.privacy import encryption

    settings = read_settings(flags).settings
    user_data = _user_data(settings)
    paths = _opened_once(settings, flags)
    _print_conversions([encryption.decrypt_store(path, user_data_dir=user_data) for path in paths], flags)


def _user_data(settings: "Settings") -> Path:
    from xscore.platform.paths import user_data_dir

    return user_data_dir(settings.store.user_data_dir)


def _opened_once(
    settings: "Settings", flags: Flags, *, first: Callable[[Path], None] = lambda path: None
) -> list[Path]:
    """Return the databases that are meant; each is made if missing, so that later rows are encrypted too.

    first: done with each path before it is opened.
    """
    from xscore.platform.paths import find_root
    from xscore.store import opening

    user, both = flags.given["user"], flags.given["both"]
    user_data, paths = _user_data(settings), []
    if both or not user:
        root = find_root(Path.cwd())
        first(root.store_file)
        opening.open_store(root.store_dir, user_data_dir=user_data, trust=settings.store.trust).close()
        paths.append(root.store_file)
    if user or both:
        if not settings.memory.user_learning:
            raise UsageError(
                "your own store stays closed: `memory.user_learning` is false here",
                hint="Run it elsewhere, or turn the setting on in your own file.",
            )
        path = opening.user_store_path(user_data)
        first(path)
        opening.open_user_store(user_data).close()
        paths.append(path)
    return paths


def _print_conversions(done: "list[Conversion]", flags: Flags) -> None:
    def render(_: object) -> str:
        lines = []
        for each in done:
            word = "encrypted" if each.is_encrypted else "decrypted" if each.changed else "plain"
            lines.append(f"{word if each.changed else f'already {word}'}: {one_line(each.path)}")
            lines += [f"  removed {one_line(place)}, which anyone could read" for place in each.removed]
        return "\n".join(lines)

    flags.terminal.print_result({"stores": [record_json(each) for each in done]}, render)
