"""`memory export | import` and `store export | import | key`: memories and judgments, to and from other machines.

Memories travel as lines of JSON or as one snapshot, judgments as a signed Parquet file. What is believed is decided
beside. A file of memories is written for the user alone, whole or not at all.
"""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click
from msgspec.structs import replace

from xscore.cli.memory import CHOICE, choice_of, is_narrow
from xscore.cli.memory_text import describe_redactions
from xscore.cli.opening import in_store, read_settings
from xscore.cli.options import DRY_RUN, FILE, YES, Flags, Option, PeriodType, command, options
from xscore.cli.terminal import Terminal, print_json
from xscore.extensions.exchange.cache_signature import ExchangeKey, exchange_key, new_exchange_key, parse_exchange_key
from xscore.pipeline.json_form import SCHEMA
from xscore.platform.errors import NothingMatched, UsageError
from xscore.platform.text import counted, format_bytes, one_line
from xscore.records import Layer

if TYPE_CHECKING:
    from xscore.extensions.exchange.cache_files import CacheExport, CacheImport
    from xscore.store.lookup import MemoryFilter
    from xscore.store.store import Store

KEY_FILE: dict[str, Option] = {
    "key_file": click.option(
        "--key-file", metavar="FILE", type=FILE, help="Holds the key your machines share; else XSCORE_CACHE_KEY."
    )
}
_OF_THE_REPOSITORY = (Layer.SESSION, Layer.PROJECT, Layer.GOVERNANCE)


@command()
@options()
def print_new_key(flags: Flags) -> None:
    """Print a new key and store it nowhere: give it to each machine as XSCORE_CACHE_KEY, or in a private file.

    Whoever has it can make every machine that has it believe any score.
    """
    made = new_exchange_key()
    name = parse_exchange_key(made, where="the new key").id
    if flags.terminal.as_json:
        print_json({"schema": SCHEMA, "key": made, "id": name})
        return
    flags.terminal.data(made)
    flags.terminal.note(f"a new key, {name}; it is stored nowhere: put it into XSCORE_CACHE_KEY on each machine")


def configured_exchange_key(flags: Flags) -> ExchangeKey | None:
    """Return the key of the file or of the environment; None: there is none. Raises UsageError."""
    cache = read_settings(flags).settings.cache
    return exchange_key(cache.key.reveal(), cache.key_file)


@command()
@click.argument("file", metavar="FILE.parquet", type=FILE)
@click.option("--judge", metavar="KEY", multiple=True, help="Only of this judge: its name, or its key. Repeatable.")
@click.option("--since", metavar="PERIOD", type=PeriodType(), help="Only of turns asked in the last 12h, 30d, 8w.")
@click.option("--no-reasons", is_flag=True, help="Leave out the judges' reasons, which are words about your code.")
@options(KEY_FILE, YES)
def export_judgments(
    *, file: Path, judge: tuple[str, ...], since: float | None, no_reasons: bool, flags: Flags
) -> None:
    """Write the judgments of this repository to FILE.parquet, signed with the key that your machines share.

    It holds no task, no source and no path: keys, scores, and reasons unless you say --no-reasons. Judgments of your
    own layer stay in your own store. `xscore store import` reads it where the key is the same.
    """
    key = configured_exchange_key(flags)

    def work(store: "Store") -> None:
        from xscore.extensions.exchange import cache_files
        from xscore.extensions.exchange.cache_signature import no_key_to_sign
        from xscore.platform import sqlite_drivers

        if key is None:
            raise no_key_to_sign()
        plain = flags.assume_yes or sqlite_drivers.read_note(store.path) is None
        question = "The store is encrypted and an export is not. Write it?"
        if not flags.terminal.confirm(question, yes=plain, otherwise="nothing was written"):
            return
        start = None if since is None else store.clock() - since
        chosen = cache_files.ExportFilter(judges=judge, since=start, reasons=not no_reasons)
        _print_exported(cache_files.export_judgments(store.connection, file, key, chosen), file, flags.terminal)

    in_store(work, flags, make=False)


def _print_exported(done: "CacheExport", file: Path, terminal: Terminal) -> None:
    words = (
        f"exported {counted(done.judgments, 'judgment')} of {counted(done.turns, 'turn')},"
        f" {counted(done.reasons, 'reason')}: {one_line(str(file))}, {format_bytes(done.bytes)},"
        f" signed with key {done.key}"
    )
    terminal.print_result(done, lambda _: words, file=str(file))
    if not terminal.as_json:
        damaged = f"left out, since they are damaged: {counted(done.damaged, 'judgment')}" if done.damaged else ""
        terminal.notes([damaged, "judgments of your own layer are not in it: they stay in your own store"])


@command()
@click.argument("file", metavar="FILE.parquet", type=FILE)
@click.option("--untrusted", is_flag=True, help="Believe nothing: its scores order what is sent, and never count.")
@options(KEY_FILE, DRY_RUN)
def import_judgments(*, file: Path, untrusted: bool, flags: Flags) -> None:
    """Take over the judgments of FILE.parquet, which `xscore store export` wrote with the same key.

    The signature is checked before anything is read. Judgments that are here stay as they are; the same file twice
    changes nothing. A file without the signature, or altered after it, is refused.
    """
    key = None if untrusted else configured_exchange_key(flags)
    dry_run = bool(flags.given["dry_run"])

    def work(store: "Store") -> None:
        from xscore.extensions.exchange import cache_files
        from xscore.scorer.replies import printable_reason

        folder = store.path.parent
        if untrusted:
            done = cache_files.import_untrusted(store.connection, file, folder=folder, dry_run=dry_run)
        else:
            done = cache_files.import_judgments(
                store.connection, file, key, folder=folder, reason=printable_reason, dry_run=dry_run
            )
        flags.terminal.print_result(done, lambda one: _imported_words(one, dry_run=dry_run), dry_run=dry_run)

    in_store(work, flags)


def _imported_words(done: "CacheImport", *, dry_run: bool) -> str:
    verb = "would import" if dry_run else "imported"
    added = counted(done.added, "judgment" if done.believed else "score")
    where = "" if done.believed else " into quarantine: they order what is sent, and never count"
    return f"{verb} {added} of {counted(done.turns, 'turn')}{where}; {done.known:,} known already"


@command()
@click.option("--snapshot", is_flag=True, help="Memories, edges, retrievals and file maps, to restore exactly.")
@click.option("-o", "--output", type=FILE, help="Write to this file, readable by you alone, instead of stdout.")
@options(CHOICE)
def export_memories(snapshot: bool, output: Path | None, flags: Flags) -> int:
    """Write what is remembered of this repository, one memory a line, sorted; `memory import` reads it back.

    Judgments are never in it, and your own layer only if you name it: `--layer user`. `--json`: one object instead.
    Exit code 1 where --layer, --scope or --kind leave nothing.
    """
    choice = choice_of(flags)
    if not snapshot:
        return in_store(lambda store: _write_memories(store, choice, output, flags), flags)
    if is_narrow(flags):
        raise UsageError("a snapshot is whole", hint="Leave out --layer, --scope and --kind, or --snapshot.")
    return in_store(lambda store: _write_snapshot(store, output, flags.terminal), flags)


def _write_memories(store: "Store", choice: "MemoryFilter", output: Path | None, flags: Flags) -> int:
    from xscore.extensions.exchange.memory_lines import exported_memories, json_line

    terminal = flags.terminal
    found = list(exported_memories(store, choice if choice.layers else replace(choice, layers=_OF_THE_REPOSITORY)))
    lines = "".join(json_line(one) + "\n" for one in found)
    if terminal.as_json:
        _write_object({"schema": SCHEMA, "memories": found}, output)
    elif output is not None:
        _write_private(output, lines)
    elif found:
        terminal.data(lines)
    _note_written(len(found), output, terminal)
    return NothingMatched.exit_code if not found and is_narrow(flags) else 0


def _write_snapshot(store: "Store", output: Path | None, terminal: Terminal) -> int:
    from xscore.extensions.exchange.snapshots import snapshot_lines, take_snapshot

    taken = take_snapshot(store)
    lines = "".join(snapshot_lines(taken, secret=store.secret))
    if output is None:
        terminal.data(lines)
    else:
        _write_private(output, lines)
    _note_written(len(taken.memories), output, terminal)
    return 0


def _write_object(whole: dict[str, object], output: Path | None) -> None:
    """Write one object: on one line of a file, or as every command prints it."""
    from xscore.extensions.exchange.memory_lines import json_line

    if output is None:
        print_json(whole)
    else:
        _write_private(output, json_line(whole) + "\n")


def _write_private(path: Path, text: str) -> None:
    from xscore.platform.files import write_atomically

    write_atomically(path, text.encode(), mode=0o600)


def _note_written(count: int, output: Path | None, terminal: Terminal) -> None:
    terminal.note(counted(count, "memory", "memories") + (f" written to {output}" if output else ""))


@command()
@click.argument("file", metavar="FILE|-", type=click.Path(allow_dash=True))
@click.option("--snapshot", is_flag=True, help="FILE is a snapshot: restore it; exactly, if this store wrote it.")
@click.option("--layer", type=click.Choice([str(Layer.USER)]), help="Also lines of your own layer, else refused.")
@options()
def import_memories(file: str, snapshot: bool, layer: str | None, flags: Flags) -> None:
    """Take over the memories of FILE (`-`: standard input), as quoted data of the source `import`.

    What is of your own layer would hold in all your repositories, so it is left out unless you say `--layer user`.
    What is here stays as it is. A line that is no memory is named, and then nothing is imported.
    """
    if snapshot and layer:
        raise UsageError("a snapshot holds nothing of your own layer", hint="Leave out --layer, or --snapshot.")
    if snapshot:
        in_store(lambda store: _restore(store, file, flags.terminal), flags)
    else:
        in_store(lambda store: _import_lines(store, file, flags.terminal, users=layer is not None), flags)


def _restore(store: "Store", file: str, terminal: Terminal) -> None:
    from xscore.extensions.exchange.snapshots import MAX_SNAPSHOT_BYTES, parse_snapshot, restore_snapshot

    data = _read_import(file, MAX_SNAPSHOT_BYTES)
    restored = restore_snapshot(store, parse_snapshot(data, secret=store.secret, now=store.clock()))
    words = (
        f"restored {counted(restored.added + restored.changed, 'memory', 'memories')},"
        f" {restored.unchanged:,} were the same; {counted(restored.edges, 'edge')},"
        f" {counted(restored.retrievals, 'look')}, {counted(restored.repository_maps, 'map')}"
    )
    terminal.print_result(restored, lambda _: words)
    if not terminal.as_json:
        terminal.notes([_forgotten(restored.forgotten)])


def _import_lines(store: "Store", file: str, terminal: Terminal, *, users: bool) -> None:
    from xscore.extensions.exchange.memory_lines import MAX_IMPORT_BYTES, import_lines

    done = import_lines(store, _read_import(file, MAX_IMPORT_BYTES), users=users)
    words = f"imported {counted(len(done.added), 'memory', 'memories')}, {done.known:,} known already"
    terminal.print_result(done, lambda _: words)
    if terminal.as_json:
        return
    kept = f"yours stay as they are, where the file differs: {', '.join(done.kept)}" if done.kept else ""
    lines = counted(done.refused, "line")
    refused = f"{lines} of your own layer refused: they would hold everywhere; say `--layer user`"
    redacted = f"{describe_redactions(done.redacted)}: a memory keeps none" if done.redacted else ""
    terminal.notes([kept, refused if done.refused else "", _forgotten(done.forgotten), redacted])


def _forgotten(count: int) -> str:
    return f"{count:,} were erased here for good, and stay erased" if count else ""


def _read_import(file: str, most: int) -> bytes:
    """Read at most one byte more than may be, so that what is too large is refused and not swallowed."""
    try:
        if file == "-":
            return sys.stdin.buffer.read(most + 1)
        with Path(file).open("rb") as opened:
            return opened.read(most + 1)
    except OSError as error:
        raise UsageError(
            f"{one_line(file)} cannot be read: {error.strerror}", hint="Name a readable file, or - for standard input."
        ) from error
