"""Read the items that a caller passes (strings, mappings, frames, Arrow, or an iterator of any),
and make their rows.

A cell without text keeps its row and is never sent. No frame library is imported: a frame is known
by what it can do, and read in slices. An iterator may block, so it is read in a thread of its own,
or a task if it is async. Trade-off: every item becomes Python strings, about a microsecond each.
"""

import asyncio
import threading
from collections import deque
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import aclosing, contextmanager, suppress
from contextvars import copy_context
from decimal import Decimal
from itertools import islice
from typing import Any, NamedTuple

from msgspec import Struct, field

from xscore.extensions.lists.results import JudgedItem
from xscore.platform.errors import SourceFailed, UsageError, require_kind
from xscore.platform.hashing import content_hash
from xscore.records.judgment import Judgment, Origin, Outcome, Unjudged, UnjudgedCause
from xscore.store.personal_data import redact_said, rules_among
from xscore.store.redaction import find_literals

LONGEST_ITEM = 1_000_000
"""Longest item in characters; a longer one is not judged, since it would be thousands of
questions."""
ZERO_USD = Decimal(0)
SLICE_ROWS = 2_000
"""Rows of a frame that are converted at a time."""
LOOK_S = 0.25
"""Seconds between looks at what the reader has."""
LEAVE_S = 1.0
"""Most seconds that an async iterator may take to end when it is cancelled."""
_COLLECTIONS: tuple[type, ...] = (
    list,
    tuple,
    set,
    frozenset,
    deque,
    type({}.keys()),
    type({}.values()),
)
GO_ON = "Earlier judgments are kept; pass the list again to continue."
_FORMS = (
    "Give strings, mappings, a polars or pandas frame, Arrow data, or an iterator of these."
)


class Item(NamedTuple):
    """One item as given."""

    id: Any
    text: str | None
    """Text of the item; None if there is nothing to judge."""


class ItemForm(NamedTuple):
    """Which columns hold the text and the id of an item."""

    columns: tuple[str, ...] = ()
    """Columns of the text, of which several are shown as lines `name: value`; empty: `text`."""
    id: str = ""
    """Column of the ids; empty: `id` if there is one, otherwise the position."""

    def items_of(self, element: Any, position: int) -> Iterable[Sequence[Item]]:
        """Return the items of one element of a list, in groups. position: that of its first
        item, from 0.

        Raises UsageError.
        """
        if hasattr(element, "as_py"):  # of an Arrow array
            element = element.as_py()
        if element is None or isinstance(element, str | float):
            return ((Item(position, _text_of(element)),),)
        if isinstance(element, Mapping):
            return ((self._of_mapping(element, position),),)
        if is_frame(element):
            return self.of_frame(element, position)
        raise UsageError(
            f"item {position} is a `{type(element).__name__}`, neither text nor a mapping",
            hint=_FORMS,
        )

    def of_frame(self, frame: Any, position: int) -> Iterator[Sequence[Item]]:
        """Yield the items of a frame, a slice at a time."""
        names = [str(name) for name in _column_names(frame)]
        text_columns = self._wanted(names, "the frame")
        id_column = self._id_among(names)
        for name in (*text_columns, id_column):
            if names.count(name) > 1:
                raise UsageError(
                    f"the frame has {names.count(name)} columns `{name}`",
                    hint="Rename one of them.",
                )
        columns = list(text_columns)
        if id_column:
            columns.append(id_column)
        for start in range(0, len(frame), SLICE_ROWS):
            cells = _cells(frame, start, columns)
            items: list[Item] = []
            for row in range(len(cells[text_columns[0]])):
                id_ = position + start + row
                if id_column:
                    id_ = cells[id_column][row]
                text = self._text({name: cells[name][row] for name in text_columns})
                items.append(Item(id_, text))
            yield items

    def _of_mapping(self, mapping: Mapping[str, Any], position: int) -> Item:
        names = self._wanted(mapping, f"item {position}")
        id_column = self._id_among(mapping)
        id_ = position
        if id_column:
            id_ = mapping[id_column]
        return Item(id_, self._text({name: mapping[name] for name in names}))

    def _wanted(self, names: Iterable[str], subject: str) -> tuple[str, ...]:
        columns = self.columns or ("text",)
        missing = [name for name in columns if name not in names]
        if missing:
            present = ", ".join(map(str, islice(names, 12))) or "none"
            hint = f"There is: {present}. Name the text with `column=`."
            raise UsageError(f"{subject} has no column `{missing[0]}`", hint=hint)
        return columns

    def _id_among(self, names: Iterable[str]) -> str:
        if self.id and self.id not in names:
            raise UsageError(
                f"there is no column `{self.id}`",
                hint="Name one that every item has with `id=`.",
            )
        if not self.id and "id" in names:
            return "id"
        return self.id

    @staticmethod
    def _text(cells: Mapping[str, Any]) -> str | None:
        texts = {name: _text_of(cell) for name, cell in cells.items()}
        if len(texts) == 1:
            return next(iter(texts.values()))
        return "\n".join(f"{name}: {text}" for name, text in texts.items() if text) or None


def item_form(column: str | Sequence[str] = (), id_: str = "") -> ItemForm:
    """Return which columns hold text and id. column: one name or several. Raises UsageError."""
    columns = (column,) if isinstance(column, str | bytes) else tuple(column)
    for name in columns:
        require_kind(str, column=name)
    return ItemForm(columns, id_)


def is_frame(items: object) -> bool:
    """Return whether it is a frame of polars or pandas, or a table or batch of Arrow."""
    return hasattr(type(items), "columns") and hasattr(type(items), "__len__")


def is_in_memory(items: object) -> bool:
    """Return whether reading all of it cannot block: a collection, a frame, or a series or array of
    one."""
    return (
        isinstance(items, _COLLECTIONS) or is_frame(items) or hasattr(type(items), "__array__")
    )


def require_list(items: object) -> None:
    """Raise UsageError if this is not a list of items."""
    is_list = isinstance(items, Iterable | AsyncIterable) or is_frame(items)
    if not is_list or isinstance(items, str | bytes | Mapping):
        raise UsageError(f"a `{type(items).__name__}` is not a list of items", hint=_FORMS)


async def read_items(
    source: Any, form: ItemForm, *, ahead: int
) -> AsyncIterator[Sequence[Item]]:
    """Yield the items of a list, element by element. Raises UsageError, and SourceFailed from what
    the iterator raises.

    ahead: most elements of an iterator that wait to be taken. When this is cancelled, they are
        still yielded. An iterator that blocks gives empty groups.
    """
    position = 0
    async with aclosing(_elements(source, ahead)) as parts:
        async for part in parts:
            for element in part:
                for items in form.items_of(element, position):
                    position += len(items)
                    yield items
            yield ()


async def _elements(items: Any, ahead: int) -> AsyncGenerator[Iterable[Any], None]:
    """Yield the elements of a list, several at a time."""
    if is_frame(items):
        yield (items,)
    elif is_in_memory(items):
        yield items
    else:
        reader = _TaskReader if isinstance(items, AsyncIterable) else _ThreadReader
        async with aclosing(reader(items, ahead).parts()) as parts:
            async for part in parts:
                yield part


class _ThreadReader:
    """Reads an iterator in a thread of its own, so that one which blocks delays neither a deadline
    nor Ctrl-C."""

    def __init__(self, items: Any, ahead: int) -> None:
        self._given = items
        self._ahead = ahead
        self._read = deque[Any]()
        self._loop = asyncio.get_running_loop()
        self._news = asyncio.Event()
        self._has_room: threading.Event | asyncio.Event = threading.Event()
        self._is_ended = self._is_left = False
        self._failure: BaseException | None = None

    async def parts(self) -> AsyncGenerator[list[Any], None]:
        """Yield what was read since the last time, perhaps nothing.

        Raises SourceFailed if the iterator raises.
        """
        self._begin()
        cancelled: asyncio.CancelledError | None = None
        try:
            while not self._is_left:
                try:
                    with suppress(TimeoutError):
                        await asyncio.wait_for(self._news.wait(), LOOK_S)
                except asyncio.CancelledError as error:
                    # Raised at the end: what was read already is yielded first.
                    cancelled = error
                self._news.clear()
                self._is_left = self._is_ended or cancelled is not None
                part = [self._read.popleft() for _ in range(len(self._read))]
                self._has_room.set()
                yield part
        finally:
            self._is_left = True
            await self._leave()
        if cancelled:
            raise cancelled
        if self._failure is not None:
            raise SourceFailed("reading the next item failed", hint=GO_ON) from self._failure

    def _begin(self) -> None:
        threading.Thread(
            target=copy_context().run, args=(self._work,), name="xscore-items", daemon=True
        ).start()

    async def _leave(self) -> None:
        self._has_room.set()

    def _work(self) -> None:
        with self._until_ended():
            for element in self._given:
                if self._is_full_with(element):
                    self._tell()
                    self._has_room.wait()
                if self._is_left:
                    return

    @contextmanager
    def _until_ended(self) -> Iterator[None]:
        try:
            yield
        # Also SystemExit, which would end the thread in silence, or the loop.
        except BaseException as error:
            self._failure = error
        self._is_ended = True
        self._tell()

    def _is_full_with(self, element: object) -> bool:
        self._read.append(element)
        self._has_room.clear()  # before the check, so that room made in between is noticed
        return len(self._read) >= self._ahead and not self._is_left

    def _tell(self) -> None:
        with suppress(RuntimeError):  # the loop was closed: there is no reader left
            self._loop.call_soon_threadsafe(self._news.set)


class _TaskReader(_ThreadReader):
    """Reads an async iterator in a task of its own, so that what came is judged while the next item
    is awaited."""

    def _begin(self) -> None:
        self._has_room: asyncio.Event = asyncio.Event()
        self._task = asyncio.create_task(self._await_items())

    async def _leave(self) -> None:
        self._task.cancel()
        await asyncio.wait([self._task], timeout=LEAVE_S)

    async def _await_items(self) -> None:
        with self._until_ended():
            async for element in self._given:
                if self._is_full_with(element):
                    self._tell()
                    await self._has_room.wait()
                if self._is_left:
                    return


def _column_names(frame: Any) -> Iterable[Any]:
    # Arrow; the others.
    if hasattr(frame, "column_names"):
        return list(frame.schema.names)
    return list(frame.columns)


def _cells(frame: Any, start: int, names: Sequence[str]) -> dict[str, list[Any]]:
    """Return some columns of a slice as lists."""
    if hasattr(frame, "iloc"):  # pandas, where a name need not be text
        present = [str(name) for name in frame.columns]
        part = frame.iloc[start : start + SLICE_ROWS]
        return {name: part.iloc[:, present.index(name)].tolist() for name in names}
    part = frame.slice(start, SLICE_ROWS)
    if hasattr(part[names[0]], "to_list"):  # polars
        return {name: part[name].to_list() for name in names}
    return {name: part[name].to_pylist() for name in names}  # pyarrow


def _text_of(cell: Any) -> str | None:
    """Return the text of a cell; None if it is missing."""
    if isinstance(cell, str):
        return cell
    try:
        if cell is None or cell != cell:  # noqa: PLR0124  NaN and NaT equal nothing
            return None
        return str(cell)
    except TypeError:  # the missing value of pandas is neither true nor false
        return None
    except ValueError:  # an array has no one truth
        return str(cell)


class ItemRun(Struct):
    """Consecutive items, looked up and judged together."""

    number: int
    items: list[Item]
    hashes: list[str] = field(default_factory=list)
    """Content hash of each item; empty where there is nothing to judge."""
    texts: dict[str, str] = field(default_factory=dict)
    """Texts by content hash, redacted."""
    cached: Mapping[str, Judgment] = {}
    """Cached judgments by content hash."""
    is_redacted: bool = False

    def redact_items(self, *, allow_pii: bool) -> None:
        """Redact the texts and hash each, once. allow_pii: leave personal data in."""
        texts: list[str] = []
        for item in self.items:
            text = item.text or ""
            if len(text) > LONGEST_ITEM:
                text = ""
            texts.append(text)
        literals = find_literals(texts, prose=True)
        rules = () if allow_pii else rules_among(texts)
        for text in texts:
            name = ""
            if text and not text.isspace():
                shown = redact_said(
                    text, allow_pii=allow_pii, literals=literals, rules=rules
                ).text
                name = content_hash("", "", shown)
                self.texts[name] = shown
            self.hashes.append(name)
        self.is_redacted = True

    def rows(
        self,
        results: Mapping[str, Outcome],
        usd_shares: Mapping[str, Decimal | None],
        absent: Unjudged,
    ) -> list[JudgedItem]:
        """Return a row for each item.

        results: those of what was to be judged.
        usd_shares: dollars by content hash; None: unpriced.
        absent: why the others have no score.
        """
        rows: list[JudgedItem] = []
        seen = set[str]()
        for item, name in zip(self.items, self.hashes, strict=True):
            judgment = self.cached.get(name)
            if judgment is not None:
                rows.append(
                    JudgedItem(item.id, judgment.score, "cached", "", judgment.reason, ZERO_USD)
                )
                continue
            result: Judgment | Unjudged = absent
            is_new = False
            own_outcome = results.get(name)
            if own_outcome is not None:
                result = own_outcome.result
                is_new = own_outcome.origin is Origin.JUDGED
            elif not name:
                result = _unjudgeable(item)
            usd = usd_shares.get(name, ZERO_USD)
            if name in seen:
                # The same text again: judged and paid for with the first.
                usd = ZERO_USD
                is_new = False
            seen.add(name)
            rows.append(_row(item, result, usd, is_new=is_new))
        return rows


def _row(
    item: Item, result: Judgment | Unjudged, usd: Decimal | None, *, is_new: bool
) -> JudgedItem:
    if isinstance(result, Unjudged):
        return JudgedItem(item.id, None, "unjudged", result.cause.value, result.detail, usd)
    outcome = "cached"
    if is_new:
        outcome = "judged"
    return JudgedItem(item.id, result.score, outcome, "", result.reason, usd)


def _unjudgeable(item: Item) -> Unjudged:
    if item.text is None or len(item.text) <= LONGEST_ITEM:
        return Unjudged("", UnjudgedCause.UNREADABLE, "there is no text")
    detail = f"{len(item.text):,} characters, and an item may have {LONGEST_ITEM:,}: split it"
    return Unjudged("", UnjudgedCause.TOO_LONG, detail)
