"""Checksums of a server's data: altered data is rejected and ends the server's use in the run."""

import json
from pathlib import Path

import pytest
import redis.asyncio as redis

from tests.extensions.shared.conftest import NewLink
from tests.extensions.shared.server_processes import ServerProcess
from xscore.cache.group_commit import GroupCommit
from xscore.cache.judgment_store import StoredJudgments
from xscore.cache.keys import judge_key
from xscore.extensions.shared.judgments import SharedJudgmentStore
from xscore.extensions.shared.server import SharedServer, decode_judgments, encode_judgments
from xscore.platform.errors import StoreDamaged
from xscore.records.judgment import ClaimState, JudgeIdentity, Judgment

TURN = ("turn", "judge", 0)
JUDGE = JudgeIdentity("openai", "host", "m", "", "1", "memory_first", True)
ONE = Judgment("a" * 32, 0.7, "because – 見 \udce9", "p1", 3, 0.25)


def test_what_was_encoded_comes_back() -> None:
    """Every field, also with a reason that is not UTF-8."""
    assert decode_judgments(
        TURN, encode_judgments(TURN, [ONE, ONE._replace(content_hash="b", reason="")])
    ) == {
        ONE.content_hash: ONE,
        "b": ONE._replace(content_hash="b", reason=""),
    }


@pytest.mark.parametrize(
    "changed",
    [(0, 0.8), (0, 1.7), (1, 0.5), (2, "p2"), (3, 4), (4, "because"), (5, 1), (0, None)],
)
def test_a_changed_field_is_damage(changed: tuple[int, object]) -> None:
    """Score, prior, pack, position, reason and checksum belong together."""
    ((content, text),) = encode_judgments(TURN, [ONE])
    fields = json.loads(text)
    fields[changed[0]] = changed[1]
    with pytest.raises(StoreDamaged):
        decode_judgments(TURN, [(content, json.dumps(fields))])


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", "[1]", "null", "[" * 9_000, '["a","b","c","d","e","f"]', b"\xff"]
)
def test_what_is_no_judgment_is_damage(text: str | bytes) -> None:
    """No fault escapes except as the one error."""
    with pytest.raises(StoreDamaged):
        decode_judgments(TURN, [("a", text)])


def test_a_judgment_of_another_turn_is_damage() -> None:
    """A row moved to another turn, judge, sample or content does not match."""
    ((content, text),) = encode_judgments(TURN, [ONE])
    for names, named in [
        (("t", "judge", 0), content),
        (("turn", "j", 0), content),
        (("turn", "judge", 1), content),
    ]:
        with pytest.raises(StoreDamaged):
            decode_judgments(names, [(named, text)])
    with pytest.raises(StoreDamaged):
        decode_judgments(TURN, [("b", text)])


@pytest.mark.parametrize("running", ["redis"], indirect=True)
async def test_damage_at_the_server_is_not_believed(
    tmp_path: Path, running: ServerProcess, server: SharedServer, link_to: NewLink, tenant: str
) -> None:
    """The memory is judged locally with a message, and the server is not used again in this run."""
    names = ("turn", judge_key(JUDGE), 0)
    await server.store_judgments(names, [ONE._replace(content_hash="a")])
    meddler = redis.Redis.from_url(running.url)
    async for key in meddler.scan_iter(f"*{tenant}*judged*"):
        (text,) = await meddler.hmget(key, ["a"])
        assert isinstance(text, bytes)
        await meddler.hset(key, "a", text.replace(b"0.7", b"0.9").decode())
    await meddler.aclose()
    notes: list[str] = []
    async with GroupCommit(tmp_path / "memory.db") as commits:
        through = SharedJudgmentStore(
            StoredJudgments(commits), link_to(note=notes.append, look_again_s=0.01)
        )
        async with through.claims("turn", JUDGE) as claims:
            for content in ("a", "b"):
                (result,) = await claims.claim([[content]], at_most=1)
                assert (result.state, dict(result.known)) == (ClaimState.OURS, {})
    (once,) = notes
    assert "does not fit its checksum" in once
