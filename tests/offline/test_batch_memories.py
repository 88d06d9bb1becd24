"""Memories that change between a list and its results: what was judged keeps its judgment, and nothing else gets it."""

from pathlib import Path

from tests.offline.bureau import Bureau, bureau, judgments, questions, rows
from tests.pipeline.conftest import FILES, shop
from xscore.pipeline.build import Pipeline

__all__ = ["shop"]

EDITED = FILES["shop/prices.py"].replace("amount * 9 // 10", "amount * 8 // 10")


async def indexed(root: Path, office: Bureau) -> None:
    """Bring the index up to date."""
    async with Pipeline.open(root, office.settings, clock=office.clock) as pipeline:
        await pipeline.index()


async def test_an_edit_after_the_send_leaves_the_judgment_with_what_was_judged(shop: Path) -> None:
    """The paid judgment stands under the old text's hash; the new text has none and is asked for by the next list."""
    with bureau("openai") as office:
        job = await office.submit(shop, questions(1))
        await office.advance(shop, job)
        (before,) = rows(shop, "SELECT content_hash FROM memory WHERE entity = 'discount'")[0]
        (shop / "shop/prices.py").write_text(EDITED)
        await indexed(shop, office)
        standing = await office.finish(shop, job)
        assert standing.judged == standing.asked
        (after,) = rows(shop, "SELECT content_hash FROM memory WHERE entity = 'discount'")[0]
        judged = {row[2] for row in judgments(shop)}
        assert before in judged and after not in judged and before != after
        again = await office.submit(shop, questions(1))
        assert (await office.finish(shop, again)).judged == 1
        assert sum(office.book.ran.values()) == 2


async def test_an_edit_before_the_send_leaves_the_piece_out_and_says_so(shop: Path) -> None:
    """A text that is gone is not shown to the judge, no other stands in for it, and it is unjudged in the account."""
    with bureau("openai") as office:
        job = await office.submit(shop, questions(1))
        (before,) = rows(shop, "SELECT content_hash FROM memory WHERE entity = 'discount'")[0]
        (shop / "shop/prices.py").write_text(EDITED)
        await indexed(shop, office)
        standing = await office.finish(shop, job)
        assert standing.unjudged == {"unreadable": 1} and standing.judged == standing.asked - 1
        assert before not in {row[2] for row in judgments(shop)}
        ((cause,),) = rows(shop, "SELECT cause FROM job_request WHERE state = 'lost'")
        assert "left the store" in cause


async def test_memories_in_parts_are_whole_when_their_parts_are(shop: Path) -> None:
    """A memory larger than a prompt is judged in parts, each in a request of its own, and is whole with the last."""
    long = "def long_one() -> int:\n    total = 0\n" + "".join(
        f"    total += {number}  # step {number} of the long way round\n\n" for number in range(400)
    )
    (shop / "shop/long.py").write_text(long + "    return total\n")
    with bureau("anthropic", judge={"pack_tokens": 1_000}, batch={"max_requests": 2}) as office:
        office.book.fate_of = lambda name: "expired" if "_1-" in name else None
        job = await office.submit(shop, questions(2))
        assert rows(shop, "SELECT 1 FROM job_ask WHERE pack LIKE 'w_%'")
        standing = await office.finish(shop, job)
        assert standing.judged == standing.asked == standing.candidates
        (whole,) = rows(shop, "SELECT content_hash FROM memory WHERE entity = 'long_one'")[0]
        assert sum(row[2] == whole for row in judgments(shop)) == 2
