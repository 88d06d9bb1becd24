"""Memories that change between a list and its results: each judgment stays with the text that was
judged."""

import json
from pathlib import Path
from typing import Any

import msgspec

from tests.extensions.batch.batch_vendor import (
    SCORES,
    BatchVendor,
    judgments,
    questions,
    run_vendor,
)
from tests.pipeline.conftest import FILES
from tests.servers.openai_batches import OpenAIBatchServer
from tests.servers.scoring import table
from tests.waiting import rows
from xscore.extensions.batch.job_rows import JobRecipe
from xscore.pipeline.build import Pipeline
from xscore.scorer.prompt_builder import rotated_codes

EDITED = FILES["shop/prices.py"].replace("amount * 9 // 10", "amount * 8 // 10")


async def indexed(root: Path, batch_vendor: BatchVendor) -> None:
    """Update the index."""
    async with Pipeline.open(root, batch_vendor.settings, clock=batch_vendor.clock) as pipeline:
        await pipeline.index()


async def test_an_edit_after_the_send_leaves_the_judgment_with_what_was_judged(
    shop: Path,
) -> None:
    """The paid judgment belongs to the old text's hash; the new text has none and is asked by the
    next list."""
    with run_vendor("openai") as batch_vendor:
        job = await batch_vendor.submit(shop, questions(1))
        await batch_vendor.advance(shop, job)
        (before,) = rows(shop, "SELECT content_hash FROM memory WHERE entity = 'discount'")[0]
        (shop / "shop/prices.py").write_text(EDITED)
        await indexed(shop, batch_vendor)
        standing = await batch_vendor.finish(shop, job)
        assert standing.judged == standing.asked
        (after,) = rows(shop, "SELECT content_hash FROM memory WHERE entity = 'discount'")[0]
        judged = {row[2] for row in judgments(shop)}
        assert before in judged and after not in judged and before != after
        second_job = await batch_vendor.submit(shop, questions(1))
        assert (await batch_vendor.finish(shop, second_job)).judged == 1
        assert sum(batch_vendor.book.ran.values()) == 2


async def test_an_edit_before_the_send_leaves_the_piece_out_and_says_so(shop: Path) -> None:
    """A removed text is not sent, nothing replaces it, and it counts as unjudged."""
    with run_vendor("openai") as batch_vendor:
        job = await batch_vendor.submit(shop, questions(1))
        (before,) = rows(shop, "SELECT content_hash FROM memory WHERE entity = 'discount'")[0]
        (shop / "shop/prices.py").write_text(EDITED)
        await indexed(shop, batch_vendor)
        standing = await batch_vendor.finish(shop, job)
        assert standing.unjudged == {"unreadable": 1} and standing.judged == standing.asked - 1
        assert before not in {row[2] for row in judgments(shop)}
        ((cause,),) = rows(shop, "SELECT cause FROM job_request WHERE state = 'lost'")
        assert "left the store" in cause


class ScoresUnknownIds(OpenAIBatchServer):
    """A judge that also scores ids that no prompt contained."""

    also: tuple[str, ...] = ()

    def _content(self, body: dict[str, Any]) -> tuple[str, tuple[str, ...]]:
        """Return the reply with additional scores."""
        content, ids = super()._content(body)
        reply = json.loads(content)
        return json.dumps(
            {**reply, "scores": {**dict.fromkeys(self.also, 99), **reply["scores"]}}
        ), ids


async def test_a_reply_that_scores_what_it_was_not_shown_is_not_believed(shop: Path) -> None:
    """A score for a piece that has left the store is ignored, though its request still names it."""
    with ScoresUnknownIds(score=table(SCORES)) as server:
        batch_vendor = BatchVendor("openai", server)
        job = await batch_vendor.submit(shop, questions(1))
        (before,) = rows(shop, "SELECT content_hash FROM memory WHERE entity = 'discount'")[0]
        (pack, pieces, plan) = rows(
            shop, "SELECT pack, pieces, plan FROM job_ask JOIN job ON job.id = job"
        )[0]
        count = len(json.loads(pieces))
        server.also = rotated_codes(
            count, secret=msgspec.json.decode(plan, type=JobRecipe).builder().secret, pack=pack
        )
        (shop / "shop/prices.py").write_text(EDITED)
        await indexed(shop, batch_vendor)
        standing = await batch_vendor.finish(shop, job)
        assert before not in {row[2] for row in judgments(shop)}
        assert standing.unjudged == {"unreadable": 1} and standing.judged == count - 1


async def test_memories_in_parts_are_whole_when_their_parts_are(shop: Path) -> None:
    """An oversized memory is judged in parts, one request each, and is complete with the last."""
    long = "def long_one() -> int:\n    total = 0\n" + "".join(
        f"    total += {number}  # step {number} of the long way round\n\n"
        for number in range(400)
    )
    (shop / "shop/long.py").write_text(long + "    return total\n")
    with run_vendor(
        "anthropic", judge={"pack_tokens": 1_000}, batch={"max_requests": 2}
    ) as batch_vendor:
        batch_vendor.book.fate_of = lambda name: "expired" if "_1-" in name else None
        job = await batch_vendor.submit(shop, questions(2))
        assert rows(shop, "SELECT 1 FROM job_ask WHERE pack LIKE 'w_%'")
        standing = await batch_vendor.finish(shop, job)
        assert standing.judged == standing.asked == standing.candidates
        (content_hash,) = rows(
            shop, "SELECT content_hash FROM memory WHERE entity = 'long_one'"
        )[0]
        assert sum(row[2] == content_hash for row in judgments(shop)) == 2
