"""An SDK is imported beside the event loop."""

import asyncio
import subprocess
import sys
import textwrap

import pytest

from xscore.providers.spec import BUILT_IN, SDKS, import_sdk


def program(body: str) -> str:
    """Run a program in a process of its own and give back what it prints."""
    text = textwrap.dedent(body)
    return subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True, timeout=60).stdout


@pytest.mark.parametrize("dialect", SDKS)
def test_the_loop_runs_on_while_an_sdk_is_imported(dialect: str) -> None:
    """The loop turns all the while, and afterwards every module that the first call needs is there."""
    said = program(
        f"""
        import asyncio, sys, time
        from xscore.providers.spec import SDKS, import_sdk

        async def main():
            turns = 0
            task = asyncio.create_task(import_sdk("{dialect}"))
            while not task.done():
                await asyncio.sleep(0.01)
                turns += 1
            task.result()
            print(turns, all(name in sys.modules for name in SDKS["{dialect}"]))

        asyncio.run(main())
        """
    )
    turns, there = said.split()
    assert int(turns) >= 5 and there == "True"


def test_who_comes_while_an_import_is_under_way_waits_for_its_end() -> None:
    """A module that is half made does not count as imported."""
    said = program(
        """
        import asyncio
        from xscore.providers.spec import import_sdk

        async def main():
            first = asyncio.create_task(import_sdk("openai"))
            await asyncio.sleep(0.05)
            first.cancel()
            await import_sdk("openai")
            from openai import AsyncOpenAI
            print(AsyncOpenAI.__name__)

        asyncio.run(main())
        """
    )
    assert said == "AsyncOpenAI\n"


def test_an_sdk_that_is_not_there_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the import raises reaches whoever waits for it."""
    monkeypatch.setitem(SDKS, "absent", ("xscore_has_no_such_module",))
    with pytest.raises(ModuleNotFoundError, match="no_such_module"):
        asyncio.run(import_sdk("absent"))


async def test_other_providers_have_nothing_imported() -> None:
    """A script, or a provider of somebody's package, imports for itself; each of ours with an SDK is in the table."""
    await import_sdk("scripted")
    await import_sdk("somebodys")
    assert set(SDKS) == set(BUILT_IN) - {"scripted"}
