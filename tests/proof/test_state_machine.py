"""Whatever happens in whatever order, nothing paid is lost, nothing is paid twice, and no score is untrue.

Hypothesis edits a real repository, asks a real loopback judge, kills, cancels and resumes turns, damages the store and
sets the clock, and after each step the store and the receipts are held against what the machine knows (`machine_checks`
says what must hold). A failure prints the steps that lead to it, with what came of each.
"""

import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, note, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test
from msgspec.structs import replace

from tests.proof import machine_checks as checks
from tests.proof.machine_judge import TrueJudge
from tests.proof.machine_store import Turns, damage
from tests.proof.machine_turns import Ask, Place, Taken, kill, take
from tests.proof.machine_world import BODIES, NAMES, PATHS, World
from tests.servers.faults import Fault
from xscore.cache.keys import judge_key
from xscore.extensions.recovery import rebuild
from xscore.platform.errors import NothingMatched, StoreError, UsageError

HOUR_S = 3_600.0
YEAR_S = 365 * 24 * HOUR_S
LATENCY_S = 0.03
LARGEST_PACK = 20
BROKEN_STORE = 6

UNREADABLE = (
    *(Fault.MALFORMED_CONTENT, Fault.MISSING_ID, Fault.DUPLICATE_ID, Fault.FOREIGN_ID, Fault.REFUSAL, Fault.TRUNCATION),
    *(Fault.NAN, Fault.OUT_OF_RANGE, Fault.STRING_SCORE, Fault.TRUE_SCORE),
)
FAILED = tuple(set(Fault) - {*UNREADABLE, Fault.DRIP, Fault.REDIRECT, Fault.ECHO, Fault.SILENCE})
FAULTS = st.sampled_from(UNREADABLE) | st.sampled_from(sorted(FAILED))
ASKS = st.builds(
    Ask,
    task=st.sampled_from(checks.TASKS),
    pack_size=st.sampled_from([None, 1, 3]),
    pack_tokens=st.sampled_from([None, 200]),
    concurrency=st.sampled_from([1, 4]),
    paths=st.sampled_from([(), (), ("lib/",)]),
    kinds=st.sampled_from([(), (), ("function",)]),
    top_k=st.sampled_from([2, 15]),
    cap=st.sampled_from(["1", "1", "0.03"]),
    answers=st.booleans(),
)
TROUBLE = st.lists(st.tuples(FAULTS, st.integers(1, 3)), max_size=2)


class Machine(RuleBasedStateMachine):
    """A repository, a store, a judge and a clock; and what is known of them."""

    def __init__(self, judge: TrueJudge) -> None:
        super().__init__()
        judge.begin()
        self.judge = judge
        self.place = Place(Path(tempfile.mkdtemp(prefix="xscore-machine-")), judge.url)
        self.world = World(self.place.root)
        self.world.begin()
        self.books = checks.Books()
        self.turns = Turns(self.place.database)
        self.offset_s = 0.0
        self.is_damaged = False

    def teardown(self) -> None:
        """End with a clean turn, which judges all there is, unless something has failed already."""
        try:
            if sys.exc_info()[0] is None:
                self._end_well()
        finally:
            shutil.rmtree(self.place.folder)

    @rule(
        what=st.sampled_from(["write", "write", "repeat", "rename", "delete", "move", "touch", "commit", "switch"]),
        path=st.sampled_from(PATHS),
        other=st.sampled_from(PATHS),
        name=st.sampled_from(NAMES),
        body=st.sampled_from(BODIES),
    )
    def edit(self, what: str, path: str, other: str, name: str, body: int) -> None:
        """Change the working tree; what cannot be done to a file that is not there writes it."""
        world = self.world
        if what == "commit":
            world.commit()
        elif what == "switch":
            world.switch("main" if world.branch == "work" else "work")
        elif what == "write" or path not in world.files:
            world.write(path, name, body)
        elif what == "rename":
            world.rename(path, name)
        elif what == "move":
            world.move(path, other)
        else:
            {"repeat": world.repeat, "delete": world.delete, "touch": world.touch}[what](path)

    @rule(ask=ASKS, trouble=TROUBLE)
    def ask(self, ask: Ask, trouble: list[tuple[Fault, int]]) -> None:
        """Take a turn at a host that has its troubles."""
        self.judge.plan(trouble)
        self._turn(ask)

    @rule(ask=ASKS)
    def ask_in_silence(self, ask: Ask) -> None:
        """Take a turn at a host that accepts a call and says nothing more."""
        self.judge.plan([(Fault.SILENCE, 1)])
        self._turn(ask, patience_s=0.06, leaves_stuck=True)

    @rule(ask=ASKS, seconds=st.sampled_from([0.25, 0.35, 0.6]))
    def ask_in_haste(self, ask: Ask, seconds: float) -> None:
        """Take a turn that has a deadline; what is in flight then may be paid and lost."""
        self.judge.latency_s = LATENCY_S
        hasty = replace(ask, deadline_s=seconds)
        self._turn(hasty, may_lose=ask.concurrency * LARGEST_PACK)

    @rule(ask=ASKS, after=st.integers(1, 4))
    def interrupt(self, ask: Ask, after: int) -> None:
        """Press Ctrl-C in the middle: what is in flight ends, and nothing is lost."""
        self.judge.latency_s = LATENCY_S
        self._turn(ask, interrupts_after=after)

    @precondition(lambda self: not self.is_damaged)
    @rule(ask=ASKS, after=st.integers(0, 4), wait_s=st.sampled_from([0.0, 0.01, 0.04]))
    def kill(self, ask: Ask, after: int, wait_s: float) -> None:
        """SIGKILL a turn in the middle; it re-pays at most what was in flight."""
        self.judge.latency_s = LATENCY_S
        was_at_work = kill(self.place, ask, self.judge, offset_s=self.offset_s, after=after, wait_s=wait_s)
        self.judge.settle_down()
        note(f"  killed at work: {was_at_work}")
        self._enter_losses(ask.concurrency * LARGEST_PACK if was_at_work else 0)

    @rule(ask=ASKS, back=st.integers(0, 3))
    def resume(self, ask: Ask, back: int) -> None:
        """Continue the latest turn, or one of those before it; with another judge only what was never judged."""
        target = self.turns.back(back)
        judge = judge_key(checks.identity(self.judge.host, ask.model))
        self._turn(
            ask,
            resumes=target if back or target in self.turns.salvaged else "",
            expects=self.turns.to_finish(target, ask, judge),
        )

    @rule(hours=st.sampled_from([-2, 1, 30]), years=st.sampled_from([-30, 0, 0, 30]))
    def set_clock(self, hours: int, years: int) -> None:
        """Let the wall clock jump."""
        self.offset_s = hours * HOUR_S + years * YEAR_S

    @precondition(lambda self: self.place.database.exists())
    @rule(
        name=st.sampled_from(["memory.db", "memory.db", "memory.db-wal"]),
        how=st.sampled_from(["overwrite", "overwrite", "cut", "delete"]),
        where=st.floats(0, 1, exclude_max=True),
        data=st.binary(min_size=1, max_size=48),
    )
    def corrupt(self, name: str, how: str, where: float, data: bytes) -> None:
        """Damage the store while nobody holds it."""
        self.is_damaged |= damage(self.place.store_dir / name, how, where, data)

    @precondition(lambda self: self.is_damaged)
    @rule()
    def rebuild(self) -> None:
        """Build the store anew, with what could be salvaged of the damaged one."""
        built = rebuild.rebuild_store(self.place.store_dir, user_data_dir=self.place.user_dir)
        note(f"  {built.salvaged.summary if built.salvaged else 'nothing to salvage'}")
        self.is_damaged = False
        self.turns.begin_anew()
        self.books.begin_anew(self.judge.delivered, frozenset(checks.committed(self.place.database, self.judge)))

    @invariant()
    def the_store_is_right(self) -> None:
        """Nothing lost, nothing untrue, nothing paid twice, every dollar entered."""
        if not self.is_damaged and self.place.database.exists():
            checks.check_store(self.place.database, self.judge, self.books)
            self.turns.look()

    def _turn(
        self,
        ask: Ask,
        *,
        resumes: str | None = None,
        expects: bool = True,
        patience_s: float = 60.0,
        interrupts_after: int | None = None,
        may_lose: int = 0,
        leaves_stuck: bool = False,
    ) -> Taken | None:
        """Take a turn and check all that is to be checked of it. expects: it does not end in a refusal."""
        served = self.judge.served
        cancels = None if interrupts_after is None else (self.judge, interrupts_after)
        try:
            taken = take(
                self.place, ask, offset_s=self.offset_s, patience_s=patience_s, resumes=resumes, cancels=cancels
            )
        except StoreError as error:
            assert self.is_damaged and error.exit_code == BROKEN_STORE
            note(f"  refused: {error.message}")
            return None
        except (NothingMatched, UsageError) as error:
            may_end_so = self.is_damaged or not expects or resumes in self.turns.salvaged
            assert resumes is not None and may_end_so, error
            return None
        finally:
            self.judge.settle_down(stuck=leaves_stuck)
            self.judge.behave()
        note(f"  exit {taken.answer.exit_code}, {taken.answer.coverage}, {taken.answer.unjudged.by_cause}")
        if self.is_damaged:
            checks.check_scores(taken, self.world)
            return taken
        assert expects, "a turn that was done is finished again"
        assert taken.answer.continues == ("" if resumes is None else resumes or self.turns.back(0))
        checks.check_receipt(taken, self.world, ask)
        bill = checks.check_money(taken, ask, served=self.judge.served - served)
        self.books.bills[taken.answer.turn_id] = bill
        assert taken.judge == checks.identity(self.judge.host, ask.model)
        self._enter_losses(may_lose)
        return taken

    def _enter_losses(self, most: int) -> None:
        if most and self.place.database.exists():
            kept = frozenset(checks.committed(self.place.database, self.judge))
            assert self.books.committed <= kept, "committed judgments are gone"
            lost = self.books.close(self.judge.delivered, kept)
            assert lost <= most, f"{lost} judgments lost, at most {most} were in flight"

    def _end_well(self) -> None:
        if self.is_damaged:
            self.rebuild()
        for asked in range(2):
            requests = self.judge.counts.requests
            taken = self._turn(Ask(checks.TASKS[0]))
            assert taken is not None and taken.answer.exit_code == 0 and taken.answer.coverage.unjudged == 0
            assert not asked or self.judge.counts.requests == requests, "a turn that was judged whole is paid again"
            self.the_store_is_right()


@pytest.fixture
def judge() -> Iterator[TrueJudge]:
    """A host that gives true scores."""
    with TrueJudge() as running:
        yield running


def run(judge: TrueJudge, *, examples: int, steps: int) -> None:
    """Run the machine, the same examples each time."""
    run_state_machine_as_test(
        lambda: Machine(judge),  # type: ignore[arg-type]  # it may be any callable that makes one, says its docstring
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            derandomize=True,
            phases=[Phase.generate],  # kills fall where they fall, so that a shorter life may not fail again
            deadline=None,
            database=None,
            suppress_health_check=[HealthCheck.too_slow],  # a step is a whole turn, with git, files and sockets
        ),
    )


@pytest.mark.verify
def test_a_short_life(judge: TrueJudge) -> None:
    """Some dozens of edits, turns, kills and damages leave every judgment true, and paid once."""
    run(judge, examples=5, steps=8)


@pytest.mark.nightly
@pytest.mark.timeout(900)
def test_a_long_life(judge: TrueJudge) -> None:
    """So do hundreds."""
    run(judge, examples=25, steps=14)
