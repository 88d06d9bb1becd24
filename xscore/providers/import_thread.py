"""The import of a large module in a thread, while the event loop runs on.

Which module a call needs is `spec`'s business. Trade-off: a thread cannot be stopped, so an
abandoned import goes on; as a daemon it does not keep the process from ending.
"""

import asyncio
from concurrent.futures import Future
from importlib import import_module
from threading import Thread


async def import_in_thread(module: str) -> None:
    """Import this module. Cancelling it leaves the import running; raises what the import
    raises."""
    imported: Future[None] = Future()
    # From here on a cancelled caller does not cancel the import.
    imported.set_running_or_notify_cancel()

    def work() -> None:
        try:
            import_module(module)
        # Code of other packages: whatever it raises, the caller waits for an end.
        except Exception as error:
            imported.set_exception(error)
        else:
            imported.set_result(None)

    Thread(target=work, name=f"import {module}", daemon=True).start()
    await asyncio.wrap_future(imported)
