"""Every fault of a judging host over whole turns, in alternating dialects: the right end, none lost
or paid twice."""

from pathlib import Path
from statistics import median

import pytest
from msgspec.structs import replace

from tests.proof.faults_setup import (
    ALWAYS,
    EACH_DIALECT,
    TASK,
    THINKING,
    FinishedTurn,
    ask,
    attempts,
    by_truth,
    by_turns,
    host_of_dialect,
    judging,
    pays_only_for,
    poisoned,
    settings_at,
)
from tests.proof.faults_table import (
    LADDER,
    LASTING,
    MEMORIES,
    PACK,
    PACKS,
    PASSING,
    STOPS,
    STORMS,
)
from tests.servers import Fault
from xscore.records.calls import Stage
from xscore.records.turn import Scope

DEADLINE_TURNS = 7
"""Number of turns in which a deadline is looked at. A busy machine holds up a call of some of
them."""


def test_no_fault_goes_without_a_row() -> None:
    """Every way in which the servers can misbehave has its expected end here."""
    assert {*LASTING, *STOPS, *STORMS} == set(Fault)


@pytest.mark.parametrize(("dialect", "fault"), by_turns(LASTING))
async def test_a_fault_that_stays(root: Path, dialect: str, fault: Fault) -> None:
    """It ends as in the table, affects only its own memories, and the next turn pays only for the
    rest."""
    end = LASTING[fault]
    with host_of_dialect(dialect) as host:
        host.misbehave(fault, times=ALWAYS, when=judging if end.strikes_all else poisoned)
        ended = await ask(root, settings_at(dialect, host.url, timeout_s=end.timeout_s))
        assert ended.answer.coverage.candidates == MEMORIES
        assert ended.answer.exit_code == end.exit_code, ended.said
        assert ended.causes == ({end.cause} if end.cause else set())
        assert end.lost[0] <= len(ended.lost) <= end.lost[1]
        assert end.says in ended.said.lower()
        assert host.counts.requests <= end.calls
        await pays_only_for(ended.lost, root, host, settings_at(dialect, host.url))


@pytest.mark.parametrize(("dialect", "fault"), by_turns(PASSING))
async def test_a_fault_that_passes(root: Path, dialect: str, fault: Fault) -> None:
    """A single fault of any kind loses no candidate: only the affected ones are asked again."""
    timeout_s = LASTING[fault].timeout_s if fault in LASTING else 4.0
    with host_of_dialect(dialect) as host:
        host.misbehave(
            fault, when=poisoned, retry_after_s=0.1 if fault is Fault.RATE_LIMITED else None
        )
        ended = await ask(root, settings_at(dialect, host.url, attempts=2, timeout_s=timeout_s))
        assert host.counts.requests <= PACKS + LADDER
        # A request that the host will not take is not sent again as it is.
        if fault is Fault.ECHO:
            assert ended.answer.exit_code in (0, 1) and len(ended.lost) <= PACK
        else:
            assert (ended.answer.exit_code, ended.lost) == (0, set()), ended.said
        await pays_only_for(ended.lost, root, host, settings_at(dialect, host.url))


@pytest.mark.parametrize(("dialect", "fault"), by_turns(STOPS))
async def test_what_stops_a_run(root: Path, dialect: str, fault: Fault) -> None:
    """No money, key or model after some call: nothing more is started, and earlier judgments are
    kept."""
    in_flight, before = 2, 5
    with host_of_dialect(dialect, latency_s=0.02) as host:
        host.misbehave(fault, times=ALWAYS, when=lambda body: host.counts.requests > before)
        ended = await ask(
            root, settings_at(dialect, host.url, pack_size=1, concurrency=in_flight, attempts=5)
        )
        assert ended.answer.exit_code == 1
        assert ended.answer.coverage.judged >= before - in_flight
        assert host.counts.refused_requests <= in_flight
        assert host.counts.requests <= before + in_flight
        assert ended.causes == {"provider"} and STOPS[fault] in ended.said
        assert host.host in ended.said
        await pays_only_for(ended.lost, root, host, settings_at(dialect, host.url, pack_size=1))


@pytest.mark.parametrize(
    ("dialect", "fault"), by_turns([*STOPS, Fault.SERVER_ERROR, Fault.RESET])
)
async def test_a_host_where_nothing_can_be_judged(
    root: Path, dialect: str, fault: Fault
) -> None:
    """Words rank, all unjudged with the cause, and no answer: exit 1 if the host is
    unreachable, otherwise 3.

    A wrong model name or base URL stays without a ranking.
    """
    with host_of_dialect(dialect) as host:
        host.misbehave(fault, times=ALWAYS)
        ended = await ask(root, settings_at(dialect, host.url, concurrency=1), answer=True)
        code = 1 if fault is Fault.RESET else 3
        is_mistake = fault in (Fault.UNKNOWN_MODEL, Fault.REDIRECT)
        ranked_by = "" if is_mistake else "lexical"
        assert ended.answer.exit_code == code
        assert ended.answer.ranked_by == ranked_by
        assert len(ended.lost) == MEMORIES
        assert host.counts.requests == (1 if fault in STOPS else PACKS)
        assert ended.answer.answer is None and host.counts.answering_requests == 0
        await pays_only_for(ended.lost, root, host, settings_at(dialect, host.url))


@pytest.mark.verify
@pytest.mark.parametrize(("dialect", "fault"), by_turns([Fault.SILENCE, Fault.DRIP]))
async def test_a_deadline_is_kept_to_half_a_second(
    root: Path, dialect: str, fault: Fault
) -> None:
    """Silence and slow drips end within half a second of a call's deadline, the first and a longer
    one."""
    late_s: list[float] = []
    for number in range(DEADLINE_TURNS):
        one_pack = replace(TASK, task=f"turn {number}", scope=Scope(paths=("tides/dusk.py",)))
        with host_of_dialect(dialect) as host:
            host.misbehave(fault, times=ALWAYS)
            ended = await ask(
                root, settings_at(dialect, host.url, timeout_s=0.1, attempts=2), turn=one_pack
            )
            assert ended.answer.exit_code == 1 and ended.causes == {"provider"}
        timeouts_s = [seconds for _, seconds, outcome in attempts(root) if outcome == "timeout"]
        assert len(timeouts_s) == 2 * (number + 1), "one call, and one retry"
        # A loopback host is given twice the time at the second try.
        first_s, second_s = timeouts_s[-2:]
        assert first_s >= 0.5 and second_s >= 1.0
        late_s.append(max(first_s - 0.5, second_s - 1.0))
    assert median(late_s) <= 0.5, late_s


@EACH_DIALECT
async def test_reasoning_that_eats_the_output_cap(root: Path, dialect: str) -> None:
    """Exit 3 after the ladder: no memory gets an invented score, and the paid thinking is shown."""
    with THINKING[dialect](score=by_truth) as host:
        ended = await ask(root, settings_at(dialect, host.url))
        assert ended.answer.exit_code == 3 and ended.causes == {"unreadable"}
        assert "cut short" in ended.said
        assert host.counts.requests <= PACKS * LADDER
        usage = ended.answer.spent(Stage.JUDGE).usage
        assert usage.reasoning_tokens == usage.output_tokens > 1_000
    with host_of_dialect(dialect) as sound:
        repeated: FinishedTurn = await ask(root, settings_at(dialect, sound.url))
        assert repeated.answer.exit_code == 0 and repeated.answer.coverage.judged == MEMORIES
