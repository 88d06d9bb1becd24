"""`xscore encrypt` and `xscore decrypt`: a store's file as cipher text, or plain again.

They open the store once to see that it is this user's and of today's schema, and close it before it is converted.

`xscore memory delete`: erase memories by id, with all that was made with them, and prove it where asked.

`erase_and_tell` is also what `wipe` ends in. Nothing is decided here about what goes along; `memory.erasure` does.

`xscore memory wipe`: erase whole layers, scopes or kinds of what is remembered beside code.

It asks; which memories are meant is `memory.lookup`'s to say, and erasing is `memory delete`'s.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
from msgspec.structs import fields

from xscore.cli.memory_choice import NARROWING, choice_of
from xscore.cli.opening import in_store, read_settings
from xscore.cli.options import OUTPUT, Flags, options
from xscore.cli.terminal import Terminal, print_json, write_stdout
from xscore.platform.errors import NothingMatched, UsageError
from xscore.platform.text import counted, one_line

if TYPE_CHECKING:
    from xscore.extensions.privacy.encryption import Conversion
    from xscore.extensions.privacy.erasure import Erasure, ErasureProof
    from xscore.settings import Settings
    from xscore.store.store import Store


USER_STORE = click.option("--user", is_flag=True, help="Your own store instead of the one of this repository.")
BOTH_STORES = click.option("--all", "both", is_flag=True, help="Both.")


@click.command()
@USER_STORE
@BOTH_STORES
@click.option("--drop-asides", is_flag=True, help="Remove set-aside stores, which would stay readable.")
@options(OUTPUT)
def encrypt(*, user: bool, both: bool, drop_asides: bool, flags: Flags) -> None:
    """Encrypt the store of this repository (AES-256); needs `xscore[crypt]`, and no other xscore at work on it.

    The key is made once, in the keyring, or in the file store.key of your data folder. Keep a copy of it elsewhere:
    without it nobody can read the store again.
    """
    from xscore.extensions.privacy import encryption

    settings = read_settings(flags).settings
    user_data = _user_data(settings)
    done = [
        encryption.encrypt_store(path, user_data_dir=user_data, drop_asides=drop_asides)
        for path in _opened_once(
            settings,
            user=user or both,
            repository=both or not user,
            first=lambda path: encryption.restore_note(path, user_data_dir=user_data),
        )
    ]
    _print_conversions(done, flags)
    if any(each.changed for each in done):
        flags.terminal.note(f"the key is in {one_line(done[0].key)}: without it nobody can read this again")


@click.command()
@USER_STORE
@BOTH_STORES
@options(OUTPUT)
def decrypt(*, user: bool, both: bool, flags: Flags) -> None:
    """Write the store of this repository as a plain one again. The key stays where it is."""
    from xscore.extensions.privacy import encryption

    settings = read_settings(flags).settings
    user_data = _user_data(settings)
    paths = _opened_once(settings, user=user or both, repository=both or not user)
    _print_conversions([encryption.decrypt_store(path, user_data_dir=user_data) for path in paths], flags)


def _user_data(settings: "Settings") -> Path:
    from xscore.platform.paths import user_data_dir

    return user_data_dir(settings.store.user_data_dir)


def _opened_once(
    settings: "Settings", *, user: bool, repository: bool, first: Callable[[Path], None] = lambda path: None
) -> list[Path]:
    """Name the databases that are meant, made where there are none, so that what is kept later is kept so too.

    first: done with each path before it is opened.
    """
    from xscore.platform.paths import find_root
    from xscore.store import opening

    user_data, paths = _user_data(settings), []
    if repository:
        root = find_root(Path.cwd())
        first(root.store_file)
        opening.open_store(root.store_dir, user_data_dir=user_data, trust=settings.store.trust).close()
        paths.append(root.store_file)
    if user:
        if not settings.memory.user_learning:
            raise UsageError(
                "your own store stays shut: `memory.user_learning` is false here",
                hint="Run it elsewhere, or switch the setting on in your own file.",
            )
        path = opening.user_store_path(user_data)
        first(path)
        opening.open_user_store(user_data).close()
        paths.append(path)
    return paths


def _print_conversions(done: "list[Conversion]", flags: Flags) -> None:
    from xscore.pipeline.json_form import SCHEMA, record_json

    if flags.terminal.as_json:
        print_json({"schema": SCHEMA, "stores": [record_json(each) for each in done]})
        return
    for each in done:
        word = "encrypted" if each.is_encrypted else "decrypted" if each.changed else "plain"
        write_stdout(f"{word if each.changed else f'already {word}'}: {one_line(each.path)}")
        for place in each.removed:
            write_stdout(f"  removed {one_line(place)}, which anyone could read")


ERASURE_NOT_VERIFIED = 6
IDS_SHOWN = 20
_READER = (
    "another process reads the store and keeps its journal, which still holds the text: end that process, then run the"
    " same command again"
)

DRY_RUN = click.option("--dry-run", is_flag=True, help="Say what would go; change nothing.")
VERIFY = click.option("--verify", is_flag=True, help="Then search the bytes of every file for the text; 6 if found.")


@click.command()
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
@DRY_RUN
@VERIFY
@click.option("--earlier", is_flag=True, help="Also the superseded memories that led to these.")
@options(OUTPUT)
def delete_memories(ids: tuple[str, ...], dry_run: bool, verify: bool, earlier: bool, flags: Flags) -> int:
    """Erase the memories with these exact IDs for good, and whatever was made with them.

    Judgments, reasons, vectors, receipts, stored answers, exchanges, checkpoints, events: the text is nowhere in the
    files afterwards. Memories of files are refused: exclude the file instead.
    """

    def work(store: "Store") -> int:
        from xscore.extensions.privacy.erasure import preview_erasure

        wanted = dict.fromkeys(ids)
        if earlier:
            wanted |= dict.fromkeys(preview_erasure(store, ids).earlier)
        return erase_and_report(store, list(wanted), dry_run=dry_run, verify=verify, terminal=flags.terminal)

    return in_store(work, flags)


def erase_and_report(
    store: "Store",
    ids: Sequence[str],
    *,
    dry_run: bool,
    verify: bool,
    terminal: Terminal,
    forget: bool = False,
    noted: bool = False,
) -> int:
    """Erase, or say what would go; return the exit code. Raises NothingMatched, UsageError, StoreError.

    forget: no import brings them back. noted: with all that projects noted in the user's store.
    """
    from xscore.extensions.privacy import erasure
    from xscore.extensions.privacy.erasure import verify_erasure

    if dry_run:
        return _print_erasure(erasure.preview_erasure(store, ids, noted=noted), None, dry_run=True, terminal=terminal)
    wording = erasure.erased_lines(store, ids, noted=noted) if verify else frozenset()
    done = erasure.erase_memories(store, ids, now=store.clock(), forget=forget, noted=noted)
    return _print_erasure(done, verify_erasure(store, wording) if verify else None, dry_run=False, terminal=terminal)


def _print_erasure(done: "Erasure", proof: "ErasureProof | None", *, dry_run: bool, terminal: Terminal) -> int:
    from xscore.pipeline.json_form import record_json, to_json

    if not (done.ids or done.observations) and done.is_clean and not done.is_finished:
        raise NothingMatched(
            f"no memory is called {_listed(done.missing)}", hint="`xscore memory list` shows ids; they are exact."
        )
    is_clean = done.is_clean and (proof is None or proof.holds)
    code = 0 if is_clean else ERASURE_NOT_VERIFIED
    if terminal.as_json:
        proven = record_json(proof) | {"holds": proof.holds} if proof else None
        print_json(to_json(done) | {"dry_run": dry_run, "proof": proven})
    else:
        write_stdout(render_erasure(done, proof, dry_run=dry_run))
    if done.missing:
        terminal.note(f"no memory is called {_listed(done.missing)}")
    if done.earlier:
        terminal.note(
            f"superseded memories that led to these stay: {_listed(done.earlier)} (`--earlier` takes them along)"
        )
    if not done.is_clean:
        terminal.note(f"not clean yet: {_READER}")
    elif proof and proof.found_in:
        terminal.note(f"still in the bytes of {_listed(proof.found_in)}: this is a bug of xscore; please report it")
    return code


def render_erasure(done: "Erasure", proof: "ErasureProof | None", *, dry_run: bool) -> str:
    """Say what went, or would go, and what the search for it found."""
    gone = {
        field.name: getattr(done, field.name)
        for field in fields(done)
        if field.name not in {"memories", "shared"} and type(getattr(done, field.name)) is int
    }
    told = [counted(count, name.removesuffix("s"), name) for name, count in gone.items() if count]
    lines = [
        f"{'would erase' if dry_run else 'erased'} {counted(done.memories, 'memory', 'memories')}: {_listed(done.ids)}"
    ]
    lines += [f"  with {', '.join(told)}"] if told else []
    if done.shared:
        are = "content is" if done.shared == 1 else "contents are"
        lines.append(f"  {done.shared:,} {are} shown by other memories too; their judgments stay")
    lines += [
        f"  {'would remove' if dry_run else 'removed'} {one_line(place)}, which holds the text" for place in done.asides
    ]
    if done.is_finished:
        lines.append("completed an erasure that had been cut short: the files are rewritten")
    if proof:
        left_out = f", {proof.still_said:,} left out, as they stand elsewhere by right" if proof.still_said else ""
        found = f"found in {_listed(proof.found_in)}" if proof.found_in else "found none"
        lines.append(
            f"verified: {counted(proof.lines, 'line')} looked for in {counted(proof.files, 'file')}, {found}{left_out}"
        )
        if proof.encrypted:
            lines.append("  an encrypted store was rewritten and all its rows were read: its raw bytes prove nothing")
    return "\n".join(lines)


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - IDS_SHOWN:,} more" if len(names) > IDS_SHOWN else ""
    return ", ".join(map(one_line, names[:IDS_SHOWN])) + more


@click.command()
@DRY_RUN
@VERIFY
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@options(NARROWING, OUTPUT)
def wipe_memories(*, dry_run: bool, verify: bool, yes: bool, flags: Flags) -> int:
    """Erase every memory of a layer, scope or kind for good, and whatever was made with them; several narrow it down.

    With your own layer (`--scope user`) goes what your projects noted of you. What comes from files is left: exclude
    the files, or remove the store. Asks first; scripts say --yes.
    """
    terminal, choice = flags.terminal, choice_of(flags)

    def work(store: "Store") -> int:
        from xscore.store.lookup import count_observations, wipeable_ids

        ids = wipeable_ids(store, choice)
        notes = count_observations(store.user_connection()) if choice.is_users_whole else 0
        if not (yes or dry_run or terminal.can_ask):
            raise UsageError("there is nobody to ask before wiping", hint="Say --yes, or look first with --dry-run.")
        if not (ids or notes):
            raise NothingMatched("no memory is of that sort", hint="`xscore memory stats` counts them by layer.")
        with_notes = f" and {counted(notes, 'observation')} of your projects" if notes else ""
        question = f"Erase {counted(len(ids), 'memory', 'memories')}{with_notes} for good?"
        if not (yes or dry_run) and not click.confirm(question, default=False, err=True):
            terminal.note("nothing was erased")
            return 1
        return erase_and_report(
            store, ids, dry_run=dry_run, verify=verify, terminal=terminal, noted=choice.is_users_whole
        )

    return in_store(work, flags)
