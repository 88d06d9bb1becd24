"""Fetch documents: tell files from addresses, read each apart, and keep what it says.

One that fails changes nothing and stops no other. Trade-off: they are fetched one after another, so
that no host is asked twice at once.
"""

import asyncio
from pathlib import Path
from urllib.parse import urlsplit

from msgspec.structs import replace

from xscore.extensions.documents.download import Download, Downloader
from xscore.extensions.documents.files import (
    is_address,
    path_of_place,
    place_of_file,
    read_document_file,
)
from xscore.extensions.documents.forms import ACCEPTED, charset_of, form_of, is_unmarked_utf_16
from xscore.extensions.documents.hosts import checked_address
from xscore.extensions.documents.keeping import FetchedDocument, KeptDocument, keep_document
from xscore.extensions.documents.parsed import DocumentForm, ParsedDocument, ReadingJob
from xscore.extensions.documents.reading import read_in_process
from xscore.platform.database import transaction
from xscore.platform.errors import NotFetched
from xscore.settings import DocumentSettings
from xscore.store.document_rows import (
    FetchRecord,
    StoredDocument,
    date_document,
    write_record,
)
from xscore.store.store import Store


class DocumentFetcher:
    """Fetches documents into one store."""

    def __init__(self, store: Store, settings: DocumentSettings) -> None:
        self._store = store
        self._settings = settings
        self._downloader = Downloader(settings)

    def fetch(self, source: str) -> KeptDocument:
        """Fetch what a person named. Raises NotFetched."""
        if is_address(source):
            return self._from_address(checked_address(source, self._settings), record=None)
        place = place_of_file(self._store.root.path, source, folder=Path.cwd())
        return self._from_file(place, record=None)

    def refresh(self, document: StoredDocument) -> KeptDocument:
        """Fetch a document again if it has changed. Raises NotFetched."""
        record = document.record
        if record is None:
            raise NotFetched(
                f"{document.place} was imported, not fetched here",
                hint="Fetch it with `xscore fetch`; then it is refreshed as well.",
            )
        if record.is_address_redacted:
            raise NotFetched(
                f"{document.place}: its address held a secret, which was not stored",
                hint="Fetch it by its full address.",
            )
        if is_address(document.place):
            return self._from_address(document.place, record=record)
        return self._from_file(document.place, record=record)

    def _from_file(self, place: str, *, record: FetchRecord | None) -> KeptDocument:
        root = self._store.root.path
        if record is not None and _is_same_file(path_of_place(root, place), record):
            return self._keep_unchanged(record)
        file = read_document_file(root, place, max_bytes=self._settings.max_bytes)
        form, document = _read(place, file.data, name=place.rpartition("/")[2])
        fetched = FetchedDocument(
            place=place,
            form=form,
            document=document,
            size=file.size,
            mtime_ns=file.mtime_ns,
        )
        return keep_document(self._store, fetched)

    def _from_address(self, address: str, *, record: FetchRecord | None) -> KeptDocument:
        since: dict[str, str] = {}
        if record is not None and record.etag:
            since["If-None-Match"] = record.etag
        if record is not None and record.last_modified:
            since["If-Modified-Since"] = record.last_modified
        download = asyncio.run(self._downloader.download(address, since=since))
        if download.is_unchanged and record is not None:
            return self._keep_unchanged(record)
        return keep_document(self._store, _document_of(address, download))

    def _keep_unchanged(self, record: FetchRecord) -> KeptDocument:
        """Update a document's date: its text is unchanged."""
        now = self._store.clock()
        connection = self._store.connection
        with transaction(connection):
            passages = date_document(connection, record.place, now=now)
            write_record(connection, replace(record, fetched_at=now))
        return KeptDocument(
            place=record.place,
            title=record.title,
            form=record.form,
            passages=passages,
            note=record.note,
            fetched_at=now,
            is_unchanged=True,
        )


def _document_of(address: str, download: Download) -> FetchedDocument:
    path = urlsplit(download.address).path
    name = path.rstrip("/").rpartition("/")[2] or urlsplit(address).netloc
    form, document = _read(
        address, download.data, name=name, content_type=download.content_type
    )
    return FetchedDocument(
        place=address,
        form=form,
        document=document,
        etag=download.etag,
        last_modified=download.last_modified,
    )


def _read(
    place: str, data: bytes, *, name: str, content_type: str = ""
) -> tuple[DocumentForm, ParsedDocument]:
    """Read a document apart. Raises NotFetched where nothing can be read of it."""
    form = form_of(data, name=name, content_type=content_type)
    if form is None:
        hint = "Save it as one of these."
        if is_unmarked_utf_16(data):
            hint = "It seems to be text in UTF-16 without a byte order mark: save it as UTF-8."
        raise NotFetched(f"{place} is not {ACCEPTED}", hint=hint)
    document = read_in_process(ReadingJob(data, form, name, charset_of(content_type)))
    if document.problem:
        raise NotFetched(
            f"{place} ({form}): {document.problem}",
            hint="Save what matters of it as text or Markdown, and fetch that.",
        )
    return form, document


def _is_same_file(path: Path, record: FetchRecord) -> bool:
    try:
        status = path.stat()
    except (OSError, ValueError):
        return False
    return (status.st_size, status.st_mtime_ns) == (record.size, record.mtime_ns)
