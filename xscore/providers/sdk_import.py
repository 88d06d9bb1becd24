"""Import a vendor's SDK without holding the event loop: 0.6 to 1.6 s of CPU in which a deadline may pass.

It runs in a daemon thread of its own, which an abandoned import goes on in; the process need not wait for it
(`cli.main` ends without it). Which modules a dialect needs is a table here, because this happens before the dialect is
called for the first time. Trade-off: the thread shares the interpreter, so what goes on meanwhile is slower.
"""

import asyncio
import threading
from contextlib import suppress
from importlib import import_module

SDKS: dict[str, tuple[str, ...]] = {
    "anthropic": ("aiohttp", "httpx2", "anthropic"),
    "openai": ("aiohttp", "httpx2", "openai"),
}
"""What the first call of our dialects imports."""
_finished: set[str] = set()
"""Dialects whose import is over; what is in `sys.modules` may still be half made."""


async def imported(dialect: str) -> None:
    """Have the modules of this dialect imported; at once where they are, or where it is none of ours.

    Cancelling it leaves the import to itself. Raises what the import raises.
    """
    if dialect not in SDKS or dialect in _finished:
        return
    loop = asyncio.get_running_loop()
    done: asyncio.Future[None] = loop.create_future()

    def tell(error: ImportError | None) -> None:
        if done.done():
            return
        if error is None:
            done.set_result(None)
        else:
            done.set_exception(error)

    def work() -> None:
        failed: ImportError | None = None
        try:
            for name in SDKS[dialect]:
                import_module(name)
            _finished.add(dialect)
        except ImportError as error:
            failed = error
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(tell, failed)

    threading.Thread(target=work, name=f"import {dialect}", daemon=True).start()
    await done
