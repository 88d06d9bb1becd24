"""A module that cannot be imported ends the wait for it."""

import asyncio
from pathlib import Path

import pytest

from xscore.providers.import_thread import import_in_thread


@pytest.mark.parametrize(
    ("source", "error"),
    [
        ("return", SyntaxError),
        ("1 / 0", ZeroDivisionError),
        ("import no_such_module", ImportError),
    ],
)
def test_what_a_module_raises_reaches_the_caller(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, error: type[Exception]
) -> None:
    """A damaged package, or a namesake of it in the folder, is an error and no endless turn."""
    (tmp_path / "imported_by_a_test.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)

    async def imported() -> None:
        async with asyncio.timeout(60):
            await import_in_thread("imported_by_a_test")

    with pytest.raises(error):
        asyncio.run(imported())
