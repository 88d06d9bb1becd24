"""`xscore cache export`: judgments as one signed Parquet file, for another machine with a clone of this repository.

`xscore cache import`: judgments from another machine, believed where their signature holds, else quarantined.

`xscore cache key`: a new key for machines that share their caches; and how the commands beside it find theirs.

`xscore memory export`: memories as lines of JSON, or a snapshot. To stdout, or to a file of your own.

`xscore memory import`: read exported memories, or a snapshot, back in; whole or not at all.

A file for the user alone: written aside with mode 0600 and moved into place whole.

What was readable by others before is not afterwards, and what stood there stays until all is written. It makes no
folders. Trade-off: what is no plain file (a pipe, a device) has no second name, and is written into as it stands; a
link stays, and the file that it leads to is replaced.
"""

import os
import secrets
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click
from msgspec.structs import replace

from xscore.cli.memory_choice import CHOICE, choice_of, is_narrow
from xscore.cli.memory_text import describe_redactions
from xscore.cli.opening import in_store, read_settings
from xscore.cli.options import FILE, OUTPUT, Flags, Option, PeriodType, options
from xscore.cli.terminal import Terminal, print_json, write_stdout
from xscore.extensions.exchange.cache_signature import ExchangeKey, exchange_key, new_exchange_key, parse_exchange_key
from xscore.platform.errors import UsageError
from xscore.platform.text import counted, format_bytes, one_line
from xscore.records import Layer, Snapshot

if TYPE_CHECKING:
    from xscore.extensions.exchange.cache_files import CacheExport, CacheImport
    from xscore.store.lookup import MemoryFilter
    from xscore.store.store import Store


KEY_FILE: dict[str, Option] = {
    "key_file": click.option(
        "--key-file", metavar="FILE", type=FILE, help="Holds the key that your machines share, else XSCORE_CACHE_KEY."
    )
}


@click.command()
@options(OUTPUT)
def print_new_key(flags: Flags) -> None:
    """Print a new key and keep it nowhere: give it to each machine as XSCORE_CACHE_KEY, or in a file of yours alone.

    Whoever has it can make every machine that has it believe any score.
    """
    from xscore.pipeline.json_form import SCHEMA

    made = new_exchange_key()
    name = parse_exchange_key(made, where="the new key").id
    if flags.terminal.as_json:
        print_json({"schema": SCHEMA, "key": made, "id": name})
        return
    flags.terminal.data(made)
    flags.terminal.note(f"a new key, called {name}; it is kept nowhere: put it into XSCORE_CACHE_KEY on each machine")


def configured_exchange_key(flags: Flags) -> ExchangeKey | None:
    """Return the key of the file or of the environment; None: there is none. Raises UsageError."""
    cache = read_settings(flags).settings.cache
    return exchange_key(cache.key.reveal(), cache.key_file)


@click.command()
@click.argument("file", metavar="FILE.parquet", type=FILE)
@click.option("--judge", metavar="KEY", multiple=True, help="Only of this judge: its name, or its key. Repeatable.")
@click.option("--since", metavar="STRETCH", type=PeriodType(), help="Only of turns asked in the last 12h, 30d, 8w.")
@click.option("--no-reasons", is_flag=True, help="Leave out the judges' reasons, which are words about your code.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask before an encrypted store is exported as a plain file.")
@options(KEY_FILE, OUTPUT)
def export_judgments(
    *, file: Path, judge: tuple[str, ...], since: float | None, no_reasons: bool, yes: bool, flags: Flags
) -> None:
    """Write the judgments of this repository to FILE.parquet, signed with the key that your machines share.

    It holds no task, no source and no path: keys, scores, and reasons unless you say --no-reasons. Judgments of your
    own layer stay in your own store. `xscore cache import` reads it where the key is the same.
    """
    key = configured_exchange_key(flags)

    def work(store: "Store") -> None:
        from xscore.extensions.exchange.cache_files import ExportFilter
        from xscore.extensions.exchange.cache_files import export_judgments as write
        from xscore.extensions.exchange.cache_signature import no_key_to_sign

        if key is None:
            raise no_key_to_sign()
        if not _may_be_plain(store, flags.terminal, agreed=yes):
            return
        from_ = None if since is None else store.clock() - since
        done = write(store.connection, file, key, ExportFilter(judges=judge, since=from_, reasons=not no_reasons))
        _print_exported(done, file, flags.terminal)

    in_store(work, flags, make=False)


def _may_be_plain(store: "Store", terminal: Terminal, *, agreed: bool) -> bool:
    """Ask where the store is encrypted: what is written is not. Raises UsageError where nobody can be asked."""
    from xscore.platform import sqlite_drivers

    if agreed or sqlite_drivers.read_note(store.path) is None:
        return True
    if not terminal.can_ask:
        raise UsageError(
            "the store is encrypted and an export is not", hint="Say --yes, and keep the file where only you can read."
        )
    if click.confirm("The store is encrypted and an export is not. Write it?", default=False, err=True):
        return True
    terminal.note("nothing was written")
    return False


def _print_exported(done: "CacheExport", file: Path, terminal: Terminal) -> None:
    from xscore.pipeline.json_form import to_json

    if terminal.as_json:
        print_json({**to_json(done), "file": str(file)})
        return
    write_stdout(
        f"exported {counted(done.judgments, 'judgment')} of {counted(done.turns, 'turn')},"
        f" {counted(done.reasons, 'reason')}: {one_line(str(file))}, {format_bytes(done.bytes)}, signed with key {done.key}"
    )
    if done.damaged:
        terminal.note(f"left behind, since they are damaged: {counted(done.damaged, 'judgment')}")
    terminal.note("judgments of your own layer are not in it: they stay in your own store")


@click.command("import")
@click.argument("file", metavar="FILE.parquet", type=FILE)
@click.option(
    "--untrusted", is_flag=True, help="Believe nothing of it: its scores order what is sent, and never count."
)
@click.option("--dry-run", is_flag=True, help="Check it and say what would come in; change nothing.")
@options(KEY_FILE, OUTPUT)
def import_judgments(*, file: Path, untrusted: bool, dry_run: bool, flags: Flags) -> None:
    """Take over the judgments of FILE.parquet, which `xscore cache export` wrote with the same key.

    The signature is looked at before anything is read. Judgments that are here stay as they are; the same file twice
    changes nothing. A file without the signature, or altered after it, is refused.
    """
    key = None if untrusted else configured_exchange_key(flags)

    def work(store: "Store") -> None:
        from xscore.extensions.exchange.cache_files import import_judgments, import_untrusted
        from xscore.scorer.replies import printable_reason

        folder = store.path.parent
        if untrusted:
            done = import_untrusted(store.connection, file, folder=folder, dry_run=dry_run)
        else:
            done = import_judgments(
                store.connection, file, key, folder=folder, reason=printable_reason, dry_run=dry_run
            )
        _print_imported(done, flags.terminal, dry_run=dry_run)

    in_store(work, flags)


def _print_imported(done: "CacheImport", terminal: Terminal, *, dry_run: bool) -> None:
    from xscore.pipeline.json_form import to_json

    if terminal.as_json:
        print_json({**to_json(done), "dry_run": dry_run})
        return
    what = "judgment" if done.believed else "score"
    verb = "would import" if dry_run else "imported"
    where = "" if done.believed else " into quarantine: they order what is sent, and never score"
    write_stdout(
        f"{verb} {counted(done.added, what)} of {counted(done.turns, 'turn')}{where}; {done.known:,} known already"
    )


def write_private(path: Path, lines: Iterable[str]) -> None:
    """Write the lines, each with its end. Raises UsageError where that cannot be; what stood there is as it was."""
    place = path.resolve()
    try:
        if place.exists() and not place.is_file():
            with place.open("w", encoding="utf-8") as file:
                file.writelines(lines)
            return
        aside = place.with_name(f".{place.name}.{secrets.token_hex(4)}")
        try:
            with os.fdopen(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
                file.writelines(lines)
            aside.replace(place)
        finally:
            aside.unlink(missing_ok=True)
    except OSError as error:
        raise UsageError(
            f"{path} cannot be written: {error.strerror}", hint="Name a file that you may write."
        ) from error


_OF_THE_REPOSITORY = (Layer.SESSION, Layer.PROJECT, Layer.GOVERNANCE)
NOTHING_EXPORTED = 1
"""Exit code."""


@click.command()
@click.option(
    "--snapshot", is_flag=True, help="Memories, edges, retrievals and file maps, as JSON lines to restore exactly."
)
@click.option("-o", "--output", type=FILE, help="Write to this file, for you alone, rather than to stdout.")
@options(CHOICE, OUTPUT)
def export_memories(snapshot: bool, output: Path | None, flags: Flags) -> int:
    """Write what is remembered of this repository, one memory a line, sorted; `memory import` reads it back.

    Judgments are never in it, and your own layer only if you name it: `--layer user`. `--json`: one object instead.
    Ends with 1 where --layer, --scope or --kind leave nothing.
    """
    choice = choice_of(flags)
    if not snapshot:
        return in_store(lambda store: _memories(store, choice, output, flags), flags)
    if is_narrow(flags):
        raise UsageError("a snapshot is whole", hint="Leave out --layer, --scope and --kind, or --snapshot.")
    return in_store(lambda store: _write_snapshot(store, output, flags.terminal), flags)


def _memories(store: "Store", choice: "MemoryFilter", output: Path | None, flags: Flags) -> int:
    from xscore.extensions.exchange.memory_lines import exported_memories, json_line
    from xscore.pipeline.json_form import SCHEMA

    terminal = flags.terminal
    found = list(exported_memories(store, choice if choice.layers else replace(choice, layers=_OF_THE_REPOSITORY)))
    if terminal.as_json:
        _write_object({"schema": SCHEMA, "memories": found}, output)
    elif output is not None:
        write_private(output, (json_line(one) + "\n" for one in found))
    elif found:
        terminal.data("".join(json_line(one) + "\n" for one in found))
    _note_written(len(found), output, terminal)
    return NOTHING_EXPORTED if not found and is_narrow(flags) else 0


def _write_snapshot(store: "Store", output: Path | None, terminal: Terminal) -> int:
    from xscore.extensions.exchange.snapshots import snapshot_lines

    taken = store.snapshot()
    lines = snapshot_lines(taken, secret=store.secret)
    if output is None:
        terminal.data("".join(lines))
    else:
        write_private(output, lines)
    _note_written(len(taken.memories), output, terminal)
    return 0


def _write_object(whole: dict[str, object], output: Path | None) -> None:
    """Write one object: on one line of a file, or as every command prints it."""
    from xscore.extensions.exchange.memory_lines import json_line

    if output is None:
        print_json(whole)
    else:
        write_private(output, [json_line(whole) + "\n"])


def _note_written(count: int, output: Path | None, terminal: Terminal) -> None:
    terminal.note(counted(count, "memory", "memories") + (f" written to {output}" if output else ""))


@click.command("import")
@click.argument("file", metavar="FILE|-", type=click.Path(allow_dash=True))
@click.option("--snapshot", is_flag=True, help="FILE is a snapshot: put it back; as it was, if this store wrote it.")
@click.option("--layer", type=click.Choice([str(Layer.USER)]), help="Also lines of your own layer, else refused.")
@options(OUTPUT)
def import_memories(file: str, snapshot: bool, layer: str | None, flags: Flags) -> None:
    """Take over the memories of FILE (`-`: standard input), as quoted data of the source `import`.

    What is of your own layer would hold in all your repositories, so it is left out unless you say `--layer user`.
    What is here stays as it is. A line that is no memory is named, and then nothing is imported.
    """

    if snapshot and layer:
        raise UsageError("a snapshot holds nothing of your own layer", hint="Leave out --layer, or --snapshot.")

    def work(store: "Store") -> None:
        from xscore.extensions.exchange.memory_lines import MAX_IMPORT_BYTES, import_lines
        from xscore.extensions.exchange.snapshots import MAX_SNAPSHOT_BYTES as SNAPSHOT_BYTES
        from xscore.pipeline.json_form import to_json

        if snapshot:
            restored = store.restore(_parse_snapshot(store, _read_import(file, SNAPSHOT_BYTES)))
            if flags.terminal.as_json:
                print_json(to_json(restored))
            else:
                write_stdout(
                    f"put back {counted(restored.added + restored.changed, 'memory', 'memories')},"
                    f" {restored.unchanged:,} were as they are; {counted(restored.edges, 'edge')},"
                    f" {counted(restored.retrievals, 'look')}, {counted(restored.repository_maps, 'map')}"
                )
                _note_forgotten(restored.forgotten, flags.terminal)
            return
        imported = import_lines(store, _read_import(file, MAX_IMPORT_BYTES), users=layer is not None)
        if flags.terminal.as_json:
            print_json(to_json(imported))
            return
        write_stdout(f"imported {counted(len(imported.added), 'memory', 'memories')}, {imported.known:,} known already")
        if imported.kept:
            flags.terminal.note(f"yours stay as they are, the file has them otherwise: {', '.join(imported.kept)}")
        if imported.refused:
            refused = counted(imported.refused, "line")
            flags.terminal.note(f"{refused} of your own layer refused: they would hold everywhere; say `--layer user`")
        _note_forgotten(imported.forgotten, flags.terminal)
        if imported.redacted:
            flags.terminal.note(f"{describe_redactions(imported.redacted)}: a memory keeps none")

    in_store(work, flags)


def _parse_snapshot(store: "Store", data: bytes) -> Snapshot:
    from xscore.extensions.exchange.snapshots import parse_snapshot

    return parse_snapshot(data, secret=store.secret, now=store.clock())


def _note_forgotten(count: int, terminal: Terminal) -> None:
    if count:
        terminal.note(f"{count:,} were erased here to be forgotten, and stay so")


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
