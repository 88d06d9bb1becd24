"""`xscore memory delete`: erase memories by id, with all that was made with them, and prove it where asked.

`erase_and_tell` is also what `wipe` ends in. Nothing is decided here about what goes along; `memory.erasure` does.
"""

from collections.abc import Sequence
from dataclasses import fields
from typing import TYPE_CHECKING

import click

from xscore.cli.opening import in_store
from xscore.cli.options import OUTPUT, Flags, options
from xscore.cli.terminal import Terminal, echo, print_json
from xscore.errors import NothingMatched
from xscore.safe_text import one_line
from xscore.wording import counted

if TYPE_CHECKING:
    from xscore.memory.erasure import Erasure
    from xscore.memory.erasure.proof import Proof
    from xscore.memory.store import Store

NOT_CLEAN = 6
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
def delete(ids: tuple[str, ...], dry_run: bool, verify: bool, earlier: bool, flags: Flags) -> int:
    """Erase the memories with these exact IDs for good, and whatever was made with them.

    Judgments, reasons, vectors, receipts, stored answers, exchanges, checkpoints, events: the text is nowhere in the
    files afterwards. Memories of files are refused: exclude the file instead.
    """

    def work(store: "Store") -> int:
        from xscore.memory.erasure import preview

        wanted = dict.fromkeys(ids)
        if earlier:
            wanted |= dict.fromkeys(preview(store, ids).earlier)
        return erase_and_tell(store, list(wanted), dry_run=dry_run, verify=verify, terminal=flags.terminal)

    return in_store(work, flags)


def erase_and_tell(
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
    from xscore.memory import erasure
    from xscore.memory.erasure.proof import prove

    if dry_run:
        return _tell(erasure.preview(store, ids, noted=noted), None, dry_run=True, terminal=terminal)
    wording = erasure.wording(store, ids, noted=noted) if verify else frozenset()
    done = erasure.erase(store, ids, now=store.clock(), forget=forget, noted=noted)
    return _tell(done, prove(store, wording) if verify else None, dry_run=False, terminal=terminal)


def _tell(done: "Erasure", proof: "Proof | None", *, dry_run: bool, terminal: Terminal) -> int:
    from xscore.pipeline.receipt import plain, to_json

    if not (done.ids or done.observations) and done.is_clean and not done.is_finished:
        raise NothingMatched(
            f"no memory is called {_listed(done.missing)}", hint="`xscore memory list` shows ids; they are exact."
        )
    is_clean = done.is_clean and (proof is None or proof.holds)
    code = 0 if is_clean else NOT_CLEAN
    if terminal.as_json:
        proven = plain(proof) | {"holds": proof.holds} if proof else None
        print_json(to_json(done) | {"dry_run": dry_run, "proof": proven})
    else:
        echo(page(done, proof, dry_run=dry_run))
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


def page(done: "Erasure", proof: "Proof | None", *, dry_run: bool) -> str:
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
