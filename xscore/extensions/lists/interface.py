"""`xscore.judge`: score every item of a list against a question, from any Python code.

`judge` returns when all is settled, `judge_async` does so within a running loop, and `judge_stream`
yields rows as they are settled, in memory that does not grow. One class judges for all three.
Trade-off: the default store is shared by all lists of this user, so that the same texts and
question are never paid for twice, whatever program asks.
"""

import asyncio
import tempfile
import threading
import warnings
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from contextlib import ExitStack, aclosing, closing, contextmanager
from pathlib import Path
from typing import Any, Unpack

from xscore.extensions.lists.items import item_form, require_list
from xscore.extensions.lists.judging import ListJudging, cancellations
from xscore.extensions.lists.notebook_frames import show_scores_of
from xscore.extensions.lists.results import JudgedItem, JudgedItems, ListReceipt
from xscore.pipeline.notebook import notebook_observer
from xscore.pipeline.options import (
    OPTION_OF_SETTING,
    JudgingOptions,
    check_options,
    load_with_options,
    require_path,
    with_rubric,
)
from xscore.pipeline.uncommitted import MAX_TASK_CHARS
from xscore.platform.errors import UsageError, XscoreError, require_kind
from xscore.platform.paths import RepositoryRoot, user_cache_dir, user_data_dir
from xscore.platform.portal import Interrupted, Portal
from xscore.records.events import Observer
from xscore.settings import Settings
from xscore.store.store import Store


class JudgeOptions(JudgingOptions, total=False):
    """Options of `judge`, `judge_async` and `judge_stream`."""

    column: str | Sequence[str]
    """Where the text of a mapping or frame is: one, or several, shown as lines `name: value`.
    Default: `text`."""
    id: str
    """The column of ids, of any type. Default: `id` if there is one, otherwise the position from
    0."""
    store: Path | str | None
    """Folder in which judgments are kept; None: keep nothing. Default: a folder in the user's
    cache."""
    observer: Observer
    """Receives progress, in another thread than the caller's where `judge` is called. Default:
    a notebook shows it."""
    settings: Settings
    """Settings with the judge and the caps in them. Default: the user's file and the
    environment, as on the command line."""


_KINDS: dict[str, tuple[type, ...]] = {
    "column": (str, Sequence),
    "id": (str,),
    "store": (str, Path),
    "observer": (Observer,),
    "settings": (Settings,),
}
"""Option -> the types that it takes; the other options are checked as settings."""


class JudgedStream:
    """Rows of a list as they are settled: iterate it with `for` or `async for`, once."""

    def __init__(
        self, runs: AsyncGenerator[tuple[int, list[JudgedItem]], None], judging: ListJudging
    ) -> None:
        self._runs = runs
        self._judging = judging
        self._lock = threading.Lock()

    @property
    def receipt(self) -> ListReceipt:
        """The receipt of the run so far, rows not given yet included.

        Raises UsageError before the first row.
        """
        if not self._judging.has_begun:
            raise UsageError("nothing was judged yet", hint="Iterate the stream first.")
        return self._judging.receipt()

    @contextmanager
    def _only_reader(self) -> Iterator[None]:
        if not self._lock.acquire(blocking=False):
            raise UsageError(
                "this stream is being read already",
                hint="Give each reader a stream of its own.",
            )
        try:
            yield
        finally:
            self._lock.release()

    async def __aiter__(self) -> AsyncIterator[JudgedItem]:
        before = cancellations()
        with self._only_reader():
            async with aclosing(self._runs) as runs:
                async for _, rows in runs:
                    for row in rows:
                        yield row
        if cancellations() > before:
            raise asyncio.CancelledError(self.receipt)

    def __iter__(self) -> Iterator[JudgedItem]:
        with self._only_reader(), closing(Portal()) as portal:
            try:
                for _, rows in portal.iterate(self._runs):
                    yield from rows
            except Interrupted:
                raise Interrupted(self.receipt if self._judging.has_begun else None) from None


def judge(question: str, items: Any, **options: Unpack[JudgeOptions]) -> Any:
    """Score every item against the question, 0..1; every item gets an outcome.

    items: strings, mappings, a polars or pandas frame, Arrow data, or an iterator or generator of
        these.

    Returns one row per item in their order, columns `id, score, outcome, cause, reason, dollars`: a
    frame of the same library for a frame, else `JudgedItems`. An item that could not be judged has
    a cause, never a score of 0.
    A frame has no receipt, so what that would say, as that no model judged, is a UserWarning.
    Equal texts are judged once; what an earlier call judged is cached. Judgments are kept as they
    are paid for.

    It works in threads of its own, one of which reads what may block, so it may be called where an
    event loop runs, and a deadline or Ctrl-C does not wait for an iterator that blocks; what it
    uses must allow that, as a SQLite connection with `check_same_thread=False` does. Secrets and
    personal data are redacted, as in tasks.

    Raises UsageError if `items` is not a list, lacks the column, or is an iterator of over 100,000
    items where no model judges; NoUsableModel, AuthenticationFailed and the like if nothing can be
    judged; StoreUntrusted for another user's store; SourceFailed if the iterator raises anything;
    Interrupted after Ctrl-C, whose `receipt` is what would have been returned. Other errors carry
    `receipt` and `judged`.
    """
    with closing(Portal()) as portal:
        return _like(items, portal.call(_judged, question, items, options))


async def judge_async(question: str, items: Any, **options: Unpack[JudgeOptions]) -> Any:
    """Do what `judge` does within a running event loop; items may also be an async iterator.

    When its task is cancelled, calls in flight end and are kept; then CancelledError is raised,
    with what would have been returned as its argument.
    """
    before = cancellations()
    judged = await _judged(question, items, options)
    if cancellations() > before:
        raise asyncio.CancelledError(judged.like(items))
    return _like(items, judged)


def _like(items: Any, judged: JudgedItems) -> Any:
    """Return the table in the library of the items; a frame has no receipt, so its warnings are
    given as Python's, and a notebook shows the cut."""
    table = judged.like(items)
    if table is not judged:
        show_scores_of(table, cut=judged.receipt.threshold)
        for warning in judged.receipt.warnings:
            warnings.warn(warning, stacklevel=3)
    return table


async def _judged(question: str, items: Any, options: JudgeOptions) -> JudgedItems:
    judging = _prepared(question, items, options)
    by_position: dict[int, list[JudgedItem]] = {}
    try:
        async for number, rows in _opened(judging, options):
            by_position[number] = rows
    except XscoreError as error:
        if error.receipt is not None:
            error.judged = _in_order(by_position, error.receipt).like(items)
        raise
    return _in_order(by_position, judging.receipt())


def judge_stream(question: str, items: Any, **options: Unpack[JudgeOptions]) -> JudgedStream:
    """Judge as `judge` does, and yield a row as soon as it is settled, in memory that does not grow
    with the list.

    Runs of about a thousand items come in the order in which they are settled. Reading the items
    waits for the rows to be taken; only the lexical judge reads the whole list first. Leave the
    loop to stop: what was judged is kept. Raises what `judge` raises, when iterated.
    """
    judging = _prepared(question, items, options)
    return JudgedStream(_opened(judging, options), judging)


def _in_order(by_position: dict[int, list[JudgedItem]], receipt: ListReceipt) -> JudgedItems:
    rows: list[JudgedItem] = []
    for position in sorted(by_position):
        rows += by_position[position]
    return JudgedItems(rows, receipt)


def _prepared(question: str, items: Any, options: JudgeOptions) -> ListJudging:
    require_kind(str, question=question)
    if not 0 < len(question.strip()) <= MAX_TASK_CHARS:
        message = (
            f"the question has {len(question.strip()):,} characters; 1 to {MAX_TASK_CHARS:,} are"
            " allowed"
        )
        raise UsageError(
            message, hint='Say what to look for: `xscore.judge("which …?", items)`.'
        )
    require_list(items)
    check_options(options, JudgeOptions)
    for name, kinds in _KINDS.items():
        require_kind(*kinds, type(None), **{name: options.get(name)})
    if (folder := options.get("store")) is not None:
        require_path(store=folder)
    form = item_form(options.get("column") or (), options.get("id") or "")
    observer = options.get("observer") or notebook_observer()
    return ListJudging(question, items, form, settings=_settings(options), observer=observer)


def _settings(options: JudgeOptions) -> Settings:
    value = options.get("settings")
    if value is None:
        return load_with_options(options, None).settings
    for setting, name in OPTION_OF_SETTING.items():
        if options.get(name) is not None:
            raise UsageError(
                f"settings= is given, and so is {name}=", hint=f"Set {setting} in the settings."
            )
    return with_rubric(value, options)


async def _opened(
    judging: ListJudging, options: JudgeOptions
) -> AsyncGenerator[tuple[int, list[JudgedItem]], None]:
    """Judge with the store open."""
    with ExitStack() as stack:
        chosen = options.get("store", user_cache_dir() / "lists")
        users = user_data_dir(judging.settings.store.user_data_dir)
        if chosen is None:
            chosen = users = Path(
                stack.enter_context(tempfile.TemporaryDirectory(prefix="xscore-"))
            )
        folder = Path(chosen).expanduser().absolute()
        root = RepositoryRoot(folder, git_dir=None, store_dir=folder)
        trust = judging.settings.store.trust
        store = stack.enter_context(
            Store.open(root, user_data_dir=users, trust=trust, user_learning=False)
        )
        async with aclosing(judging.runs(store)) as runs:
            async for run in runs:
                yield run
