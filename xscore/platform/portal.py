"""A thread with an event loop, for callers that have no loop, or whose own loop is busy (a
notebook).

Work runs there one piece at a time, so connections and clients are used by one thread alone. Ctrl-C
in the calling thread cancels the work, waits for what it returns, and raises `Interrupted` with
that; a second Ctrl-C does not wait. Trade-off: the calling thread blocks, so a program with a
running loop of its own should await the async interface.
"""

import asyncio
import os
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from concurrent import futures
from concurrent.futures.thread import ThreadPoolExecutor
from contextlib import aclosing, suppress
from contextvars import copy_context
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, ParamSpec, TypeVar
from weakref import WeakSet

from xscore.platform.errors import UsageError

P = ParamSpec("P")
Result = TypeVar("Result")
Event = TypeVar("Event")
_END = object()
NOTICE_S = 0.1
"""How long a waiting thread takes to notice Ctrl-C."""


class Interrupted(KeyboardInterrupt):
    """Ctrl-C ended a call; what was paid for is kept."""

    receipt: Any
    """What the interrupted call returned, such as an `Answer`; None if it had nothing to
    report."""

    def __init__(self, receipt: object = None) -> None:
        super().__init__(
            "stopped; what was paid for is kept"
            if receipt
            else "stopped before anything was sent"
        )
        self.receipt = receipt

    def _render_traceback_(self) -> list[str]:
        """Show a notebook the receipt instead of a traceback."""
        return [f"Interrupted: {self}", *([str(self.receipt)] if self.receipt else [])]


class _Job:
    """One piece of work, which another thread may cancel at any time."""

    def __init__(
        self, work: Callable[[], Awaitable[Result]], loop: asyncio.AbstractEventLoop
    ) -> None:
        self._work = work
        self._loop = loop
        self._task: asyncio.Task[object] | None = None
        self.is_cancelled = False

    async def run(self) -> Any:
        self._task = asyncio.current_task()
        if self.is_cancelled:
            raise asyncio.CancelledError
        return await self._work()

    def cancel(self, *, first: Callable[[], None] = lambda: None) -> None:
        """Cancel the work, also if it has not begun.

        first: what to do in the same step of the loop, if it has begun.
        """
        self.is_cancelled = True
        task = self._task
        if task is None:
            return

        def cancel_task() -> None:
            first()
            task.cancel()

        self._loop.call_soon_threadsafe(cancel_task)


class _Relay:
    """Hands events from the portal's loop to another thread, one ahead of it."""

    def __init__(self, events: AsyncGenerator[Event, None]) -> None:
        self._events: AsyncGenerator[Any, None] = events
        self.arrived: SimpleQueue[Any] = SimpleQueue()
        self.wanted = asyncio.Semaphore(1)
        self.is_left = False
        """Whether the other thread wants no more."""

    def leave(self) -> None:
        """Note that the other thread wants no more. Within the loop, and together with a
        cancellation: one that came later would cut short how `events` ends."""
        self.is_left = True

    async def pass_on(self) -> object:
        """Pass on every event; return the last."""
        last = None
        async with aclosing(self._events) as events:
            async for last in events:
                if self.is_left:  # `events` absorbed the cancellation, to end cleanly
                    break
                self.arrived.put(last)
                try:
                    await self.wanted.acquire()
                except asyncio.CancelledError:
                    if self.is_left:
                        raise
                    task = asyncio.current_task()
                    assert task is not None
                    # Ctrl-C: cancels `events` next, which may still yield its last ones.
                    task.cancel()
        return last

    def take(self, job: _Job) -> Any:
        """Wait for the next event. A first Ctrl-C cancels the job; a second one is raised."""
        try:
            return _wait(self.arrived.get, Empty)
        except KeyboardInterrupt:
            if job.is_cancelled:
                raise
            job.cancel()
            return _wait(self.arrived.get, Empty)


_PORTALS: "WeakSet[Portal]" = WeakSet()
"""Open portals of this process; their streams are left before the interpreter ends."""


class Portal:
    """A thread that runs coroutines for other threads.

    It ends with `close`, or with the interpreter.
    """

    def __init__(self) -> None:
        self._runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)
        self._loop = self._runner.get_loop()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="xscore")
        self._pid = os.getpid()
        self._streams_to = 0
        self._is_closed = False
        self._leave_stream: Callable[[], None] = lambda: None
        _PORTALS.add(self)

    def call(
        self, work: Callable[P, Awaitable[Result]], *args: P.args, **kwargs: P.kwargs
    ) -> Result:
        """Run `work(*args, **kwargs)` and return its result.

        Raises what it raises, Interrupted, and UsageError.
        """
        job, done = self._begin(partial(work, *args, **kwargs))
        try:
            _wait(done.exception, futures.TimeoutError)
            result: Result = done.result()
        except KeyboardInterrupt:
            if done.done():
                raise
            job.cancel()
            raise Interrupted(_result_of_cancelled(job, done)) from None
        return result

    def iterate(self, events: AsyncGenerator[Event, None]) -> Iterator[Event]:
        """Yield the events; the next is fetched while the caller handles one.

        Leaving the loop closes `events` and waits for that. Ctrl-C cancels it, yields what it still
        has, and raises Interrupted with the last event.
        """
        relay = _Relay(events)
        job, done = self._begin(relay.pass_on)
        done.add_done_callback(lambda _: relay.arrived.put(_END))

        def leave() -> None:
            self._streams_to = 0
            # A forked child has no thread that runs the loop, so it would wait for ever.
            if self._pid == os.getpid() and not done.done():
                job.cancel(first=relay.leave)
                futures.wait([done])
            relay.is_left = True

        self._streams_to = threading.get_ident()
        self._leave_stream = leave
        try:
            while (event := relay.take(job)) is not _END:
                yield event
                if relay.is_left or self._pid != os.getpid():
                    raise UsageError(
                        "this stream was closed, or begun before a fork", hint="Begin it again."
                    )
                self._loop.call_soon_threadsafe(relay.wanted.release)
            if job.is_cancelled:
                raise Interrupted(_result_of_cancelled(job, done))
            done.result()
        finally:
            leave()

    def close(self, last: Callable[[], Awaitable[object]] | None = None) -> None:
        """Run the last work, then end the thread. Closing twice, or after a fork, does nothing.

        A stream that this thread began and did not read to its end is left.
        """
        if self._is_closed or self._pid != os.getpid():
            return
        if self._streams_to == threading.get_ident():
            # Its thread would wait for ever to be asked for the next event.
            self._leave_stream()
        try:
            if last is not None:
                self.call(last)
        finally:
            self._is_closed = True
            with suppress(RuntimeError):  # the interpreter is ending, and has ended the thread
                self._thread.submit(self._runner.close)
            self._thread.shutdown()

    def abandon(self) -> None:
        """Close the idle loop of a portal that nobody closed and nobody can use any more.

        Otherwise what is collected after it would begin to close itself in a loop that never
        runs again, of which Python warns from 3.13 on.
        """
        if not self._is_closed and self._pid == os.getpid():
            self._is_closed = True
            with suppress(RuntimeError):  # a call that a second Ctrl-C left is running
                self._loop.close()
            self._thread.shutdown(wait=False)

    def abandon_after_calls(self) -> None:
        """Do the same once the calls of other threads have ended."""
        if not self._is_closed and self._pid == os.getpid():
            with suppress(RuntimeError):
                self._thread.submit(self._loop.close)

    def leave_stream_without_reader(self, readers: set[int | None]) -> None:
        """Leave the stream that is open, unless one of these threads reads it."""
        if self._pid == os.getpid() and self._streams_to and self._streams_to not in readers:
            self._leave_stream()

    def _begin(
        self, work: Callable[[], Awaitable[Result]]
    ) -> "tuple[_Job, futures.Future[Any]]":
        self._refuse_misuse()
        # A notebook knows the running cell by it.
        job = _Job(work, self._loop)
        context = copy_context()
        return job, self._thread.submit(lambda: self._runner.run(job.run(), context=context))

    def _refuse_misuse(self) -> None:
        if self._is_closed:
            raise UsageError("this folder was closed", hint="Open it again: `xscore.open(…)`.")
        if self._pid != os.getpid():
            raise UsageError(
                "this folder was opened before a fork",
                hint="Call `xscore.open` in the new process.",
            )
        if threading.get_ident() == self._streams_to:
            raise UsageError(
                "a stream is open in this thread", hint="Leave its loop before the next call."
            )
        if asyncio._get_running_loop() is self._loop:
            raise UsageError(
                "this thread runs the work itself",
                hint="Await the methods of `Pipeline` there.",
            )


def _wait(take: Callable[..., Any], not_yet: type[Exception]) -> Any:
    """Return `take(timeout=…)` as soon as it does not raise `not_yet`.

    A wait without a timeout would hide Ctrl-C: libraries such as polars install a SIGINT handler
    that restarts it.
    """
    while True:
        with suppress(not_yet):
            return take(timeout=NOTICE_S)


def _result_of_cancelled(job: _Job, done: "futures.Future[Any]") -> object:
    try:
        _wait(done.exception, futures.TimeoutError)
        return done.result()
    except (asyncio.CancelledError, futures.CancelledError):
        return None
    except KeyboardInterrupt:
        job.cancel()
        raise


def _leave_portals() -> None:
    """Leave the streams that have no reader left, and the loops of portals that are open still: the
    interpreter is about to wait for their threads."""
    main = threading.main_thread()
    readers = {
        thread.ident
        for thread in threading.enumerate()
        if thread is not main and not thread.daemon
    }
    for portal in tuple(_PORTALS):
        portal.leave_stream_without_reader(readers)
        portal.abandon_after_calls()


# called last in, first out, so before the pool's own, which was registered when it was imported;
# `atexit` comes later
threading._register_atexit(_leave_portals)  # type: ignore[attr-defined]  # no public hook runs before threads are joined
