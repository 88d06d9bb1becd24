"""A real Jupyter kernel runs cells: progress in one line, receipts as tables, Ctrl-C, and the next
cell."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.servers.decision_server import DecisionServer
from tests.servers.scoring import table
from xscore.providers.scripted import ShownMemory

pytestmark = pytest.mark.verify
Message = dict[str, Any]
MANY = 6_000
JUDGE_MANY = (
    "xscore.judge('Which tickets speak of lost payments?', [f'ticket {n} is lost' for n in"
    f" range({MANY})])"
)


class Notebook:
    """A kernel whose cells run one after the other."""

    def __init__(self, manager: Any, client: Any) -> None:
        self._manager, self._client = manager, client

    def run(self, code: str, on: Callable[[Message], None] = lambda _: None) -> list[Message]:
        """Run a cell; return its output as the notebook stores it."""
        shown: list[Message] = []

        def hear(message: Message) -> None:
            if message["msg_type"] not in ("status", "execute_input"):
                shown.append(message["content"] | {"type": message["msg_type"]})
                on(shown[-1])

        self._client.execute_interactive(code, output_hook=hear, timeout=60)
        return shown

    def interrupt(self) -> None:
        """Press the interrupt button."""
        self._manager.interrupt_kernel()


@pytest.fixture
def host() -> Iterator[DecisionServer]:
    """The host of the judge."""
    with DecisionServer(score=table({"discount": 90, "lost": 90}, default=4)) as running:
        yield running


@pytest.fixture
def notebook(host: DecisionServer, own_home: Path) -> Iterator[Notebook]:
    """A kernel that judges at the host."""
    from jupyter_client.manager import start_new_kernel

    named = {
        "SYSTEMONE_BASE_URL": host.url,
        "XSCORE_JUDGE_MODEL": "systemone:jev-1.14.0",
        "XSCORE_JUDGE_PROBE": "0",
    }
    checkout = str(Path(__file__).parents[2])
    manager, client = start_new_kernel(
        env=os.environ | named | {"PYTHONPATH": checkout, "HOME": str(own_home)}
    )
    try:
        yield Notebook(manager, client)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def lines(shown: list[Message]) -> list[str]:
    """Return the texts of the progress line; assert that there was one line."""
    displays = [
        message
        for message in shown
        if message["type"] in ("display_data", "update_display_data")
    ]
    assert [message["type"] for message in displays].count("display_data") == 1
    assert len({message["transient"]["display_id"] for message in displays}) == 1
    return [message["data"]["text/plain"] for message in displays]


def test_a_turn_shows_its_progress_and_then_itself(notebook: Notebook, shop: Path) -> None:
    """One line is updated in place; an answer at the end of a cell is shown as a page."""
    opened = f"import xscore\nwith xscore.open({str(shop)!r}) as x:\n"
    shown = notebook.run(
        opened + "    answer = x.context('Where is the discount taken?')\nanswer"
    )
    progress = lines(shown)
    assert progress[0] == "xscore: bringing the index up to date …" and "kept" in progress[-1]
    assert shown[-1]["type"] == "execute_result"
    assert "shop/prices.py::discount" in shown[-1]["data"]["text/html"]


def test_ctrl_c_ends_a_list_in_its_receipt_and_the_next_cell_goes_on(
    notebook: Notebook, host: DecisionServer
) -> None:
    """The cell shows the receipt instead of a traceback; running it again asks only about the
    rest."""

    def score(memory: ShownMemory, turn: str) -> int:
        host.latency_s = 0.5  # one request is answered at once
        return 90

    host.score = score
    pressed: list[Message] = []

    def press(shown: Message) -> None:
        if shown["type"] == "update_display_data" and not pressed:
            pressed.append(shown)
            notebook.interrupt()

    shown = notebook.run(f"import xscore, sys\n{JUDGE_MANY}", press)
    assert shown[-1]["type"] == "error" and shown[-1]["ename"] == "Interrupted"
    assert f"{MANY:,} items: " in shown[-1]["traceback"][1]
    assert "ended early: interrupted" in shown[-1]["traceback"][1]
    counts = (
        "of = sys.last_value.receipt.receipt.coverage; "
        "print(of.judged, of.judged + of.unjudged)"
    )
    judged, total = map(int, notebook.run(counts)[-1]["text"].split())
    assert 0 < judged < total == MANY
    host.latency_s, host.score = 0.0, table({}, default=4)
    next_cell = notebook.run(JUDGE_MANY)
    assert f"{MANY:,} of {MANY:,} judged" in lines(next_cell)[-1]
    assert (
        f"{MANY - judged:,} judged, {judged:,} cached, 0 unjudged"
        in next_cell[-1]["data"]["text/plain"]
    )
    assert "<table" in next_cell[-1]["data"]["text/html"] and host.questions == MANY


def test_a_frame_of_scores_shows_how_they_lie(notebook: Notebook) -> None:
    """A frame that was joined does so by kind; a frame without scores is shown as before."""
    notebook.run(
        "import polars, xscore\n"
        "tickets = polars.DataFrame({'id': [1, 2, 3], 'text': ['lost', 'slow', 'small'],"
        " 'kind': ['money', 'speed', 'speed']})\n"
        "scored = xscore.judge('Which are lost?', tickets, store=None)"
    )

    def shown_html(code: str) -> str:
        return str(notebook.run(code)[-1]["data"]["text/html"])

    assert 'title="1 from 0.9 to 0.95"' in shown_html("scored")
    joined = shown_html("tickets.join(scored, on='id').sort('score')")
    assert ">money<" in joined and ">speed<" in joined and "the cut" in joined
    assert "the cut" not in shown_html("tickets")
