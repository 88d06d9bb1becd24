"""`xscore cache import`: judgments from another machine, believed where their signature holds, else quarantined."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from xscore.cli.cache_key import KEY, key_in_force
from xscore.cli.opening import in_store
from xscore.cli.options import FILE, OUTPUT, Flags, options
from xscore.cli.terminal import Terminal, echo, print_json
from xscore.wording import counted

if TYPE_CHECKING:
    from xscore.cache.importing import Imported
    from xscore.memory.store import Store


@click.command("import")
@click.argument("file", metavar="FILE.parquet", type=FILE)
@click.option(
    "--untrusted", is_flag=True, help="Believe nothing of it: its scores order what is sent, and never count."
)
@click.option("--dry-run", is_flag=True, help="Check it and say what would come in; change nothing.")
@options(KEY, OUTPUT)
def import_file(*, file: Path, untrusted: bool, dry_run: bool, flags: Flags) -> None:
    """Take over the judgments of FILE.parquet, which `xscore cache export` wrote with the same key.

    The signature is looked at before anything is read. Judgments that are here stay as they are; the same file twice
    changes nothing. A file without the signature, or altered after it, is refused.
    """
    key = None if untrusted else key_in_force(flags)

    def work(store: "Store") -> None:
        from xscore.cache.importing import import_cache, import_hearsay
        from xscore.scorer.scores_read import printable

        folder = store.path.parent
        if untrusted:
            done = import_hearsay(store.connection, file, folder=folder, dry_run=dry_run)
        else:
            done = import_cache(store.connection, file, key, folder=folder, reason=printable, dry_run=dry_run)
        _tell(done, flags.terminal, dry_run=dry_run)

    in_store(work, flags)


def _tell(done: "Imported", terminal: Terminal, *, dry_run: bool) -> None:
    from xscore.pipeline.receipt import to_json

    if terminal.as_json:
        print_json({**to_json(done), "dry_run": dry_run})
        return
    what = "judgment" if done.believed else "score"
    verb = "would import" if dry_run else "imported"
    where = "" if done.believed else " into quarantine: they order what is sent, and never score"
    echo(f"{verb} {counted(done.added, what)} of {counted(done.turns, 'turn')}{where}; {done.known:,} known already")
