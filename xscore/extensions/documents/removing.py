"""Erase fetched documents for good, after a question, with all that was made of their passages.

The erasure itself is `extensions.privacy`'s. Trade-off: a document comes back when it is fetched
again by name, since a user who names it means it.
"""

from collections.abc import Sequence

from xscore.cli.flags import Flags
from xscore.extensions.privacy.erasure import erase_memories
from xscore.extensions.privacy.erasure_report import ErasureReport, print_erasure
from xscore.extensions.privacy.owed_erasures import settle_owed_erasures
from xscore.platform.database import transaction
from xscore.platform.errors import ExitCode
from xscore.platform.text import counted
from xscore.settings import Settings
from xscore.store.document_rows import StoredDocument, allow_again, passages_of
from xscore.store.store import Store


def remove_documents(
    store: Store, documents: Sequence[StoredDocument], flags: Flags, settings: Settings
) -> int:
    """Ask, erase the passages of these documents, and return the exit code. Raises StoreError."""
    connection = store.connection
    passages = passages_of(connection, [document.place for document in documents])
    ids = [passage.id for passage in passages]
    subject = f"{counted(len(documents), 'document')} ({counted(len(ids), 'passage')})"
    question = f"Erase {subject} for good, with the answers that were made with them?"
    if not flags.terminal.confirm(
        question, yes=flags.assume_yes, otherwise="nothing was erased"
    ):
        return ExitCode.PARTLY
    erased = erase_memories(store, ids, now=store.clock())
    with transaction(connection):
        # Erased ids stay out of the store, but these may be fetched again by name.
        allow_again(connection, ids)
    servers = settle_owed_erasures(connection, settings, verify=False, here_only=False)
    return print_erasure(ErasureReport(erased, None, servers, (), dry_run=False), flags)
