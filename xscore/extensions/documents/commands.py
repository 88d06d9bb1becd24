"""`xscore fetch`: read documents and pages into memory, list, refresh and remove them.

Nothing is fetched but what a person names here. Trade-off: one command with options rather than a
group, since `xscore fetch FILE` is what nearly every call is.
"""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from xscore.cli.flags import Flags, command
from xscore.cli.options import YES
from xscore.cli.phrases import format_age
from xscore.cli.settings_and_store import opened_store, read_settings
from xscore.cli.text_layout import render_table
from xscore.extensions.documents.files import is_address, place_of_file
from xscore.extensions.documents.searching import search_documents
from xscore.pipeline.json_form import record_json
from xscore.platform.clock import DAY_S
from xscore.platform.errors import ExitCode, NotFetched, NothingMatched, UsageError
from xscore.platform.extras import require_extra
from xscore.platform.text import counted, join_sentences, one_line
from xscore.store.document_rows import StoredDocument, stored_documents

if TYPE_CHECKING:
    from xscore.extensions.documents.fetching import DocumentFetcher
    from xscore.extensions.documents.keeping import KeptDocument
    from xscore.settings import Settings
    from xscore.store.store import Store

EXTRA = "documents"
_LIBRARIES = ("trafilatura", "pypdf", "docx", "protego")


@command(YES)
@click.argument("sources", metavar="[FILE|URL]...", nargs=-1)
@click.option("--list", "lists", is_flag=True, help="List what was fetched.")
@click.option("--refresh", is_flag=True, help="Fetch again what has changed: all, or these.")
@click.option("--remove", is_flag=True, help="Erase these for good. Asks first.")
@click.option(
    "--search", metavar="QUERY", help="List addresses that a search plugin finds; fetch none."
)
def fetch(
    *,
    sources: tuple[str, ...],
    lists: bool,
    refresh: bool,
    remove: bool,
    search: str | None,
    flags: Flags,
) -> int:
    """Read documents into memory: PDF, DOCX, HTML, Markdown, text, from files or https addresses.

    Their passages are candidates of every turn, shown as quoted data with address, heading or page,
    and age. Only what you name is fetched: no turn fetches anything. Secrets are redacted. A
    document is shown as out of date after `memory.document_days`; --refresh asks its host only for
    what is new. Exit code 1 if one was not fetched.
    """
    ways = [lists, refresh, remove, search is not None]
    if sum(ways) > 1:
        raise UsageError(
            "--list, --refresh, --remove and --search exclude one another",
            hint="Give one of them.",
        )
    settings = read_settings(flags).settings
    if search is not None:
        return _search(search, sources, flags, settings)
    if lists:
        return _list(sources, flags, settings)
    if not (sources or refresh):
        raise UsageError(
            "no document was named",
            hint="Name files or https addresses; --list shows what is here.",
        )
    if remove:
        return _remove(sources, flags, settings)
    for library in _LIBRARIES:
        require_extra(EXTRA, library, purpose="`xscore fetch`")
    if refresh:
        return _refresh(sources, flags, settings)
    return _fetch(sources, flags, settings)


def _fetch(sources: Sequence[str], flags: Flags, settings: "Settings") -> int:
    with opened_store(flags, settings=settings) as store:
        fetcher = _fetcher(store, settings)
        return _run(
            [partial(fetcher.fetch, source) for source in dict.fromkeys(sources)], flags
        )


def _refresh(sources: Sequence[str], flags: Flags, settings: "Settings") -> int:
    with opened_store(flags, make=False, settings=settings) as store:
        chosen = _named_documents(store, sources)
        if not chosen:
            raise NothingMatched(
                "nothing was fetched yet", hint="`xscore fetch FILE|URL` fetches a document."
            )
        fetcher = _fetcher(store, settings)
        return _run([partial(fetcher.refresh, document) for document in chosen], flags)


def _fetcher(store: "Store", settings: "Settings") -> "DocumentFetcher":
    # Only where something is read: it takes 0.1 s to import.
    from xscore.extensions.documents.fetching import DocumentFetcher

    return DocumentFetcher(store, settings.documents)


def _run(fetches: Sequence[Callable[[], "KeptDocument"]], flags: Flags) -> int:
    """Fetch one after another, say what became of each, and return the exit code."""
    kept: list[KeptDocument] = []
    refused: list[NotFetched] = []
    for fetch_one in fetches:
        try:
            kept.append(fetch_one())
        except NotFetched as error:
            refused.append(error)
    body = {
        "documents": [record_json(document) for document in kept],
        "not_fetched": [
            {"problem": refusal.message, "hint": refusal.hint} for refusal in refused
        ],
    }
    flags.terminal.print_result(
        body, "\n".join(map(_describe_kept, kept)), none="nothing was fetched"
    )
    for refusal in refused:
        flags.terminal.note(f"not fetched: {join_sentences(refusal.message, refusal.hint)}")
    return ExitCode.PARTLY if refused else ExitCode.DONE


def _describe_kept(document: "KeptDocument") -> str:
    """`https://… “Title”: 12 passages (3 new, 1 changed, 2 gone)`."""
    figures = {
        "new": document.added,
        "changed": document.changed,
        "gone": document.removed,
        "left out, since they were erased": document.left_out,
    }
    parts = [f"{count:,} {words}" for words, count in figures.items() if count]
    if document.redacted:
        parts.append(f"{counted(document.redacted, 'secret')} redacted")
    news = ", ".join(parts)
    line = f"{one_line(document.place)}  “{one_line(document.title)}”:"
    line = f"{line} {counted(document.passages, 'passage')}"
    remark = "unchanged" if document.is_unchanged else news
    if remark:
        line = f"{line} ({remark})"
    if document.note:
        line = f"{line}; {document.note}"
    return line


def _named_documents(store: "Store", sources: Sequence[str]) -> list[StoredDocument]:
    """Return the documents that these name, or all. Raises NothingMatched."""
    documents = stored_documents(store.connection)
    if not sources:
        return documents
    by_place = {document.place: document for document in documents}
    chosen: list[StoredDocument] = []
    for source in sources:
        place = source.partition("#")[0]
        if not is_address(source) and source not in by_place:
            place = place_of_file(store.root.path, source, folder=Path.cwd())
        document = by_place.get(source) or by_place.get(place)
        if document is None:
            raise NothingMatched(
                f"{one_line(source)} was not fetched",
                hint="`xscore fetch --list` shows what was.",
            )
        chosen.append(document)
    return chosen


def _list(sources: Sequence[str], flags: Flags, settings: "Settings") -> int:
    with opened_store(flags, make=False, settings=settings) as store:
        documents = _named_documents(store, sources)
        now = store.clock()
    oldest = now - settings.memory.document_days * DAY_S
    rows: list[list[str]] = []
    body: list[dict[str, object]] = []
    for document in documents:
        is_stale = document.fetched_at < oldest
        age = format_age(document.fetched_at, now)
        rows.append(
            [
                one_line(document.place),
                one_line(document.title),
                f"{document.passages:,}",
                f"{age} (out of date)" if is_stale else age,
            ]
        )
        body.append({**record_json(document), "is_stale": is_stale})
    table = render_table(
        ("document", "title", "passages", "fetched"), rows, right=("passages",)
    )
    none = "nothing was fetched yet; `xscore fetch FILE|URL` fetches a document"
    flags.terminal.print_result({"documents": body}, table if rows else "", none=none)
    return ExitCode.DONE


def _remove(sources: Sequence[str], flags: Flags, settings: "Settings") -> int:
    # Erasing takes 0.1 s to import.
    from xscore.extensions.documents.removing import remove_documents

    with opened_store(flags, make=False, settings=settings) as store:
        return remove_documents(store, _named_documents(store, sources), flags, settings)


def _search(query: str, sources: Sequence[str], flags: Flags, settings: "Settings") -> int:
    if sources:
        raise UsageError(
            "--search fetches nothing",
            hint="Search first, then fetch the addresses that you want.",
        )
    pages = search_documents(query, settings)
    lines = [f"{one_line(page.address)}  {one_line(page.title)}".rstrip() for page in pages]
    body = {"results": [record_json(page) for page in pages]}
    flags.terminal.print_result(body, "\n".join(lines), none="nothing was found")
    return ExitCode.DONE if pages else NothingMatched.exit_code
