"""What a list judged live says of itself: that no cap holds, how far it is, why it ended, how it was planned."""

import time
from pathlib import Path

from msgspec.structs import replace

from tests.extensions.batch.lists import judged, judging
from tests.pipeline.conftest import server, settings_for, shop
from tests.pipeline.test_affording import UNPRICED, Listener, host
from tests.pipeline.test_affording import settings as at_the_vendor
from tests.servers.billing import BillingServer
from tests.servers.openai_server import OpenAIServer
from xscore.extensions.batch import job_text

__all__ = ["host", "server", "shop"]


async def test_a_model_without_a_price_is_told_of_before_the_first_call(shop: Path, host: BillingServer) -> None:
    """Under a cap it is said that none holds, while nothing is sent, and in the warnings; not of a cached list."""
    listener, settings = Listener(host), at_the_vendor(cap="1", judge=UNPRICED)
    found = await judged(shop, settings, observer=listener)
    assert listener.about("no cap on dollars holds") == [0]
    assert sum("no cap on dollars holds" in said for said in found.warnings) == 1
    again = await judged(shop, settings, observer=(quiet := Listener(host)))
    assert not quiet.about("no cap on dollars holds") and not again.warnings


async def test_a_deadline_that_is_over_is_the_cause(shop: Path, server: OpenAIServer) -> None:
    """Nothing is sent, everything is unjudged by the deadline, and the list ends with 1."""
    settings = settings_for(judging(server))
    hurried = replace(settings, budget=replace(settings.budget, deadline_s=0.5))
    found = await judged(shop, hurried, started=time.monotonic() - 60)
    assert (server.counts.requests, found.ended, found.exit_code) == (0, "deadline", 1)
    assert found.unjudged_by_cause == {"deadline": found.candidates}


async def test_a_replay_of_what_is_all_cached_says_nothing_of_replay(shop: Path, server: OpenAIServer) -> None:
    """Everything was judged before, so that nothing is missing; and the end says how the list was planned."""
    settings = settings_for(judging(server))
    first = await judged(shop, settings)
    assert "planned with 0 % replayed" in job_text.render_live_account(first, verbose=False)
    replaying = replace(settings, judge=replace(settings.judge, replay=True))
    again = await judged(shop, replaying)
    assert (again.ended, again.exit_code, again.warnings) == ("", 0, ())
    assert "planned with 100 % replayed" in job_text.render_live_account(again, verbose=False)
