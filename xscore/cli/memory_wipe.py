"""`xscore memory wipe`: erase whole layers, scopes or kinds of what is remembered beside code.

It asks; which memories are meant is `memory.lookup`'s to say, and erasing is `memory delete`'s.
"""

from typing import TYPE_CHECKING

import click

from xscore.cli.memory_choice import NARROWING, choice_of
from xscore.cli.memory_delete import DRY_RUN, VERIFY, erase_and_tell
from xscore.cli.opening import in_store
from xscore.cli.options import OUTPUT, Flags, options
from xscore.errors import NothingMatched, UsageError
from xscore.wording import counted

if TYPE_CHECKING:
    from xscore.memory.store import Store


@click.command()
@DRY_RUN
@VERIFY
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@options(NARROWING, OUTPUT)
def wipe(*, dry_run: bool, verify: bool, yes: bool, flags: Flags) -> int:
    """Erase every memory of a layer, scope or kind for good, and whatever was made with them; several narrow it down.

    With your own layer (`--scope user`) goes what your projects noted of you. What comes from files is left: exclude
    the files, or remove the store. Asks first; scripts say --yes.
    """
    terminal, choice = flags.terminal, choice_of(flags)

    def work(store: "Store") -> int:
        from xscore.memory.lookup import to_wipe
        from xscore.memory.observations import noted_in

        ids = to_wipe(store, choice)
        notes = noted_in(store.user_connection()) if choice.is_users_whole else 0
        if not (yes or dry_run or terminal.can_ask):
            raise UsageError("there is nobody to ask before wiping", hint="Say --yes, or look first with --dry-run.")
        if not (ids or notes):
            raise NothingMatched("no memory is of that sort", hint="`xscore memory stats` counts them by layer.")
        with_notes = f" and {counted(notes, 'observation')} of your projects" if notes else ""
        question = f"Erase {counted(len(ids), 'memory', 'memories')}{with_notes} for good?"
        if not (yes or dry_run) and not click.confirm(question, default=False, err=True):
            terminal.note("nothing was erased")
            return 1
        return erase_and_tell(
            store, ids, dry_run=dry_run, verify=verify, terminal=terminal, noted=choice.is_users_whole
        )

    return in_store(work, flags)
