"""`memory export | import` and `store export | import | key`: memories and judgments, to and from
other machines.

Memories travel as lines of JSON or as one snapshot, judgments as a signed file. `memory_lines`,
`snapshots` and `judgment_files` decide what is trusted. A file of memories is private to the user,
and written whole or not at all.
"""

import secrets
from collections.abc import Sequence
from pathlib import Path

import click
import msgspec
from msgspec.structs import replace

from xscore.cli.flags import Flags, command
from xscore.cli.memory import CHOICE, choice_of, is_narrow
from xscore.cli.memory_text import describe_redactions
from xscore.cli.options import DRY_RUN, FILE, YES, option, period_s
from xscore.cli.settings_and_store import opened_store, read_settings
from xscore.cli.terminal import Terminal, print_json
from xscore.extensions.transfer import judgment_files
from xscore.extensions.transfer.judgment_files import USE_ITS_KEY
from xscore.extensions.transfer.memory_lines import (
    MAX_IMPORT_BYTES,
    MOST_NAMED,
    MemoryImport,
    exported_memories,
    import_lines,
)
from xscore.extensions.transfer.saved_files import Contents, encode_file
from xscore.extensions.transfer.saved_records import SavedMemory
from xscore.extensions.transfer.snapshots import (
    SnapshotRestored,
    import_snapshot,
    snapshot_file,
    take_snapshot,
)
from xscore.extensions.transfer.transfer_keys import (
    KEY_BYTES,
    NEW_KEY_HINT,
    TransferKey,
    parse_transfer_key,
    transfer_key,
)
from xscore.pipeline.json_form import SCHEMA
from xscore.platform.errors import NothingMatched, UsageError
from xscore.platform.figures import format_bytes
from xscore.platform.files import write_atomically
from xscore.platform.json_lines import name_lines_file, read_lines_file
from xscore.platform.sqlite_drivers import read_note
from xscore.platform.text import counted, escape_in_json, one_line
from xscore.records.memory import Layer

KEY_FILE = [
    option(
        "--key-file",
        metavar="FILE",
        type=FILE,
        sets="cache.key_file",
        help="Holds the key your machines share; otherwise XSCORE_CACHE_KEY is used.",
    )
]
JUDGMENTS_FILE = click.argument("file", metavar="FILE", type=FILE)
_OF_THE_REPOSITORY = (Layer.SESSION, Layer.PROJECT, Layer.GOVERNANCE)


@command()
def print_new_key(flags: Flags) -> None:
    """Print a new key and store it nowhere: give it to each machine as XSCORE_CACHE_KEY, or in a
    private file.

    Anyone with it can make every machine that holds it believe any score.
    """
    key = secrets.token_hex(KEY_BYTES)
    name = parse_transfer_key(key, where="the new key").id
    flags.terminal.print_result({"key": key, "id": name}, key)
    flags.terminal.note(
        f"a new key, {name}; it is stored nowhere: put it into XSCORE_CACHE_KEY on each machine"
    )


def _configured_transfer_key(flags: Flags) -> TransferKey | None:
    cache = read_settings(flags).settings.cache
    return transfer_key(cache.key.reveal(), cache.key_file)


@command(KEY_FILE, YES)
@JUDGMENTS_FILE
@click.option(
    "--judge",
    "judges",
    metavar="KEY",
    multiple=True,
    help="Only judgments by this judge (name or key). Repeatable.",
)
@click.option(
    "--since",
    metavar="PERIOD",
    type=period_s,
    help="Only judgments of turns asked in the last 12h, 30d, 8w.",
)
@click.option(
    "--no-reasons",
    is_flag=True,
    help="Leave out the judges' reasons, which describe your code.",
)
def export_judgments(
    *, file: Path, judges: tuple[str, ...], since: float | None, no_reasons: bool, flags: Flags
) -> None:
    """Write the judgments of this repository to FILE, signed with the key that your machines share.

    It holds no task, no source and no path: keys, scores, and reasons unless you say --no-reasons.
    Judgments of your own layer stay in your own store. `xscore store import` reads it where the key
    is the same.
    """
    key = _configured_transfer_key(flags)
    if key is None:
        raise UsageError("there is no key to sign with", hint=NEW_KEY_HINT)
    with opened_store(flags, make=False) as store:
        plain = flags.assume_yes or read_note(store.path) is None
        question = "The store is encrypted and an export is not. Write it?"
        if not flags.terminal.confirm(question, yes=plain, otherwise="nothing was written"):
            return
        start = 0.0 if since is None else store.clock() - since
        done = judgment_files.export_judgments(
            store.connection, file, key, judges=judges, since=start, reasons=not no_reasons
        )
    judgments = f"{counted(done.judgments, 'judgment')} of {counted(done.turns, 'turn')}"
    reasons_exported = counted(done.reasons, "reason")
    place = f"{one_line(str(file))}, {format_bytes(done.bytes)}, signed with key {done.key}"
    flags.terminal.print_result(
        done, f"exported {judgments}, {reasons_exported}: {place}", more={"file": str(file)}
    )
    if done.damaged:
        damaged = counted(done.damaged, "judgment")
        flags.terminal.note(f"left out, since they are damaged: {damaged}")
    flags.terminal.note(
        "judgments of your own layer are not in it: they stay in your own store"
    )


@command(KEY_FILE, DRY_RUN)
@JUDGMENTS_FILE
@click.option(
    "--untrusted",
    is_flag=True,
    help="Do not trust its scores: use them only to order what is sent.",
)
def import_judgments(*, file: Path, untrusted: bool, flags: Flags) -> None:
    """Import the judgments in FILE, which `xscore store export` wrote with the same key.

    The signature is checked before anything is read. Existing judgments stay as they are; the same
    file twice changes nothing. A file without the signature, or altered after it, is refused.
    """
    key = None if untrusted else _configured_transfer_key(flags)
    dry_run = flags.dry_run
    if key is None and not untrusted:
        raise UsageError("there is no key to check the file with", hint=USE_ITS_KEY)
    with opened_store(flags) as store:
        done = judgment_files.import_judgments(store.connection, file, key, dry_run=dry_run)
    verb = "would import" if dry_run else "imported"
    turns = counted(done.turns, "turn")
    if done.believed:
        words = f"{verb} {counted(done.added, 'judgment')} of {turns}"
    else:
        words = f"{verb} {counted(done.added, 'score')} of {turns}"
        words += " into quarantine: they order what is sent and never count as scores"
    words += f"; {done.known:,} already known"
    flags.terminal.print_result(done, words, more={"dry_run": dry_run})


@command(CHOICE)
@click.option(
    "--snapshot",
    is_flag=True,
    help="Everything, for an exact restore: memories, edges, retrievals, file maps.",
)
@click.option(
    "-o",
    "--output",
    type=FILE,
    help="Write to this file, readable only by you, instead of stdout.",
)
def export_memories(snapshot: bool, output: Path | None, flags: Flags) -> int:
    """Write what is remembered of this repository, one memory a line, sorted; `memory import` reads
    it back.

    It never holds judgments, and your own layer only if you name it: `--layer user`. `--json`: one
    object instead. Exit code 1 where --layer, --scope or --kind leave nothing.
    """
    choice = choice_of(flags)
    as_json = flags.terminal.as_json
    if snapshot and is_narrow(flags):
        raise UsageError(
            "a snapshot always holds everything",
            hint="Leave out --layer, --scope and --kind, or --snapshot.",
        )
    body: dict[str, object] | None = None
    with opened_store(flags, make=False) as store:
        if snapshot:
            taken = take_snapshot(store)
            count = len(taken.memories)
            text = snapshot_file(taken, secret=store.secret)
        else:
            chosen = choice if choice.layers else replace(choice, layers=_OF_THE_REPOSITORY)
            memories = list(exported_memories(store, chosen))
            count = len(memories)
            if as_json:
                body = _memories_json(memories)
                text = escape_in_json(msgspec.json.encode(body).decode()).encode() + b"\n"
            else:
                # Nothing at all where there is no memory: a first line would look like a result.
                text = encode_file(Contents.MEMORIES, memories) if memories else b""
    place = ""
    if output is not None:
        write_atomically(output, text, mode=0o600)
        place = f" written to {output}"
    elif body is not None:
        print_json(body)
    elif text:
        flags.terminal.data(text.decode(), is_json=True)
    flags.terminal.note(counted(count, "memory", "memories") + place)
    if not count and is_narrow(flags):
        return NothingMatched.exit_code
    return 0


def _memories_json(memories: Sequence[SavedMemory]) -> dict[str, object]:
    """Return the one object of `--json`: its memories need no name of their kind of record."""
    bodies = [msgspec.to_builtins(memory) for memory in memories]
    for body in bodies:
        del body["record"]
    return {"schema": SCHEMA, "memories": bodies}


@command()
@click.argument("file", metavar="FILE|-", type=click.Path(allow_dash=True, path_type=Path))
@click.option(
    "--snapshot",
    is_flag=True,
    help="Restore FILE, a snapshot; exactly, if this store wrote it.",
)
@click.option(
    "--layer",
    type=click.Choice([str(Layer.USER)]),
    help="Also accept lines of your own layer, refused otherwise.",
)
@click.option(
    "--skip-damaged", is_flag=True, help="Skip lines that are not JSON, and list them."
)
def import_memories(
    file: Path, snapshot: bool, layer: str | None, skip_damaged: bool, flags: Flags
) -> None:
    """Import the memories in FILE (`-`: standard input), as quoted data of the source `import`.

    Your own layer would apply in all your repositories, so it is left out unless you pass `--layer
    user`. Existing memories stay as they are. If a line is not a memory, it is named and nothing is
    imported; --skip-damaged leaves out lines that a full disk has cut.
    """
    if snapshot and skip_damaged:
        raise UsageError(
            "a damaged snapshot restores nothing exactly", hint="Leave out --skip-damaged."
        )
    if snapshot and layer:
        raise UsageError(
            "a snapshot holds nothing of your own layer",
            hint="Leave out --layer, or --snapshot.",
        )
    with opened_store(flags) as store:
        data = read_lines_file(file, max_bytes=MAX_IMPORT_BYTES)
        name = name_lines_file(file)
        if snapshot:
            _print_restored(import_snapshot(store, data, name=name), flags.terminal)
        else:
            done = import_lines(
                store, data, name=name, users=layer is not None, skips_damaged=skip_damaged
            )
            _print_imported(done, flags.terminal)


def _print_restored(done: SnapshotRestored, terminal: Terminal) -> None:
    parts = (
        f"restored {counted(done.added + done.changed, 'memory', 'memories')}",
        f"{done.unchanged:,} unchanged; {counted(done.edges, 'edge')}",
        counted(done.retrievals, "retrieval"),
        counted(done.repository_maps, "map"),
    )
    terminal.print_result(done, ", ".join(parts))
    _note_forgotten(done.forgotten, terminal)
    if done.refused:
        lines = counted(done.refused, "line")
        terminal.note(f"{lines} of your own layer refused: no snapshot of yours holds any")


def _print_imported(done: MemoryImport, terminal: Terminal) -> None:
    memories = counted(len(done.added), "memory", "memories")
    terminal.print_result(done, f"imported {memories}, {done.known:,} already known")
    if done.damaged:
        numbers = ", ".join(map(str, done.damaged[:MOST_NAMED]))
        if len(done.damaged) > MOST_NAMED:
            numbers += ", …"
        terminal.note(f"{counted(len(done.damaged), 'damaged line')} left out: {numbers}")
    if done.kept:
        terminal.note(f"kept yours where the file differs: {', '.join(done.kept)}")
    if done.refused:
        lines = counted(done.refused, "line")
        terminal.note(
            f"{lines} of your own layer refused: they would apply everywhere; pass `--layer user`"
            " to accept them"
        )
    _note_forgotten(done.forgotten, terminal)
    if done.redacted:
        terminal.note(describe_redactions(done.redacted))


def _note_forgotten(count: int, terminal: Terminal) -> None:
    if count:
        erased = counted(count, "memory was", "memories were")
        terminal.note(f"{erased} erased here for good, and stay erased")
