"""A real browser for page tests: headless Chromium, over its DevTools protocol by a websocket.

One process serves many tests; each opens a tab of its own, in a context of its own. What the tab
asks the network for, says on its console and shows as a dialog is kept, so that a test can hold
that there was none.
"""

import asyncio
import itertools
import os
import shutil
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-sync",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-extensions",
    "--hide-scrollbars",
    "--force-color-profile=srgb",
    "--remote-debugging-port=0",
)
PATIENCE_S = 60
SETTLED = (
    "document.readyState === 'complete' && Array.from(document.images).every(image =>"
    " image.complete)"
)
HEARD = (
    "Network.requestWillBeSent",
    "Runtime.consoleAPICalled",
    "Runtime.exceptionThrown",
    "Log.entryAdded",
)


def installed() -> str | None:
    """Return the path of a Chromium, or None."""
    return next(filter(None, map(shutil.which, NAMES)), None)


@contextmanager
def running_or_skip(home: Path) -> Iterator[str]:
    """Start a browser for tests; without one skip them, except in continuous integration."""
    program = installed()
    if program is None:
        if os.environ.get("CI", "").lower() in {"1", "true"}:
            pytest.fail(
                "no chromium is here; pages must be tested in one: apt-get install chromium"
            )
        pytest.skip("no chromium is here: apt-get install chromium")
    with chromium(program, home) as address:
        yield address


@contextmanager
def chromium(program: str, home: Path) -> Iterator[str]:
    """Run a browser with its own home; yield its DevTools address."""
    home.mkdir(parents=True, exist_ok=True)
    log, written = home / "chromium.log", home / "profile" / "DevToolsActivePort"
    written.unlink(missing_ok=True)
    environment = {**os.environ, "HOME": str(home)}
    command = [program, *FLAGS, f"--user-data-dir={home / 'profile'}", "about:blank"]
    with (
        log.open("wb") as browser_log,
        subprocess.Popen(
            command, stdout=browser_log, stderr=browser_log, env=environment
        ) as running,
    ):
        try:
            yield _address(running, written, log)
        finally:
            running.terminate()
            running.wait(60)


def _address(running: "subprocess.Popen[bytes]", written: Path, log: Path) -> str:
    for _ in range(1_200):
        lines = written.read_text().splitlines() if written.exists() else []
        if len(lines) == 2:
            return f"ws://127.0.0.1:{lines[0]}{lines[1]}"
        if running.poll() is not None:
            break
        time.sleep(0.05)
    raise RuntimeError(f"chromium did not start: {log.read_text(errors='replace')[-2000:]}")


class Tab:
    """One page in the browser."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._ids = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._loaded = asyncio.Event()
        self.session = ""
        self.heard: list[tuple[str, dict[str, Any]]] = []
        """Requests, console lines, exceptions and log entries, as the browser reports them."""
        self.dialogs: list[str] = []

    async def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send one command; return its result."""
        number = next(self._ids)
        answer = asyncio.get_running_loop().create_future()
        self._waiting[number] = answer
        message = {"id": number, "method": method, "params": parameters}
        await self._socket.send_json(
            {**message, "sessionId": self.session} if self.session else message
        )
        return dict(await asyncio.wait_for(answer, PATIENCE_S))

    async def listen(self) -> None:
        """Read the browser's messages until it is closed."""
        async for message in self._socket:
            event = message.json()
            if "id" in event:
                self._answered(event)
            elif event["method"] == "Page.loadEventFired":
                self._loaded.set()
            elif event["method"] == "Page.javascriptDialogOpening":
                self.dialogs.append(event["params"]["message"])
            elif event["method"] in HEARD:
                self.heard.append((event["method"], event["params"]))

    def _answered(self, reply: dict[str, Any]) -> None:
        answer = self._waiting.pop(reply["id"])
        if answer.done():
            return
        if "error" in reply:
            answer.set_exception(RuntimeError(reply["error"]["message"]))
        else:
            answer.set_result(reply["result"])

    async def open(self, page: Path | str) -> None:
        """Load a file or an address and wait until it is there."""
        self._loaded.clear()
        await self.send("Page.navigate", url=page if isinstance(page, str) else page.as_uri())
        await asyncio.wait_for(self._loaded.wait(), PATIENCE_S)

    async def look(
        self, *, width: int, height: int = 900, theme: str = "light", media: str = "screen"
    ) -> None:
        """Set window size, light or dark mode, screen or print."""
        await self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 500,
        )
        features = [{"name": "prefers-color-scheme", "value": theme}]
        await self.send("Emulation.setEmulatedMedia", media=media, features=features)

    async def run(self, script: str) -> Any:
        """Return the value of a JavaScript expression."""
        answer = await self.send(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in answer:
            raise RuntimeError(str(answer["exceptionDetails"]))
        return answer["result"].get("value")

    async def until(self, script: str) -> None:
        """Wait until a JavaScript expression is true. Raises TimeoutError if it stays false."""
        async with asyncio.timeout(PATIENCE_S):
            while not await self.run(script):  # noqa: ASYNC110  the browser is another process
                await asyncio.sleep(0.01)

    async def settle(self) -> None:
        """Wait until the page is loaded, its images loaded or failed, and it was drawn twice."""
        await self.until(SETTLED)
        await self.run(
            "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() =>"
            " done(true))))"
        )

    async def press_enter(self) -> None:
        """Press and release the Enter key."""
        code = {"key": "Enter", "code": "Enter", "windowsVirtualKeyCode": 13}
        await self.send("Input.dispatchKeyEvent", type="keyDown", text="\r", **code)
        await self.send("Input.dispatchKeyEvent", type="keyUp", **code)

    @property
    def asked_for(self) -> list[str]:
        """Return the requested addresses."""
        return [
            params["request"]["url"]
            for method, params in self.heard
            if method == "Network.requestWillBeSent"
        ]

    @property
    def complaints(self) -> list[str]:
        """Return what the browser or the page reported: violations of the policy, exceptions,
        console lines."""
        return [
            str(params)
            for method, params in self.heard
            if method != "Network.requestWillBeSent"
        ]


@asynccontextmanager
async def tab(address: str) -> AsyncIterator[Tab]:
    """Open a tab in a new context; close it at the end."""
    async with (
        aiohttp.ClientSession() as web,
        web.ws_connect(address, max_msg_size=0) as socket,
    ):
        opened = Tab(socket)
        listening = asyncio.create_task(opened.listen())
        context = await opened.send("Target.createBrowserContext", disposeOnDetach=True)
        target = await opened.send(
            "Target.createTarget",
            url="about:blank",
            browserContextId=context["browserContextId"],
        )
        attached = await opened.send(
            "Target.attachToTarget", targetId=target["targetId"], flatten=True
        )
        opened.session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log", "Accessibility", "DOM"):
            await opened.send(f"{domain}.enable")
        try:
            yield opened
        finally:
            await socket.close()
            await listening
