"""The plan of a list: each pair is asked exactly once, and shared parts are made once."""

from collections import Counter
from collections.abc import Mapping, Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from xscore.extensions.batch.batch_planner import BatchPlanner
from xscore.extensions.batch.list_plan import ListOptions, ListPlan
from xscore.pipeline.pool import Pool, pool_among
from xscore.pipeline.question_list import ListMemories, PreparedQuestion, Question, QuestionList
from xscore.platform.hashing import content_hash
from xscore.prompts.judge import JudgeModel
from xscore.records.candidates import Candidate, Slots
from xscore.records.estimates import JudgeEstimate
from xscore.records.judgment import Judgment
from xscore.records.memory import Kind, Layer
from xscore.records.turn import Scope, Turn
from xscore.scorer.pack_assignment import assign_packs
from xscore.scorer.packs import PackProfile
from xscore.scorer.prompt_builder import PromptBuilder
from xscore.scorer.repair import MemoryPiece, memory_pieces

Known = Mapping[str, Judgment]


def member(number: int, tokens: int) -> Candidate:
    """A memory of N tokens, a few to a file."""
    path = f"src/f{number // 4}.py"
    hash_ = content_hash(path, f"f{number}", text_of(number, tokens))
    return Candidate(
        f"m_{number:04}",
        hash_,
        Layer.GRAPH,
        Kind.FUNCTION,
        path,
        f"f{number}",
        number,
        number,
        "python",
        tokens,
        0.0,
    )


def text_of(number: int, tokens: int) -> str:
    """Return a text of about N tokens, in lines."""
    return "".join(f"line {line} of {number}\n" for line in range(max(1, tokens // 4)))


def texts(members: Sequence[Candidate]) -> dict[str, str]:
    """Load the texts shown to the judge."""
    return {member.id: text_of(member.start_line, member.tokens) for member in members}


def prepared(number: int, task: str, pool: Pool) -> PreparedQuestion:
    """Prepare a list's question without a store."""
    return PreparedQuestion(
        Turn(task=task), f"key of {task}", pool, number, Question(id=f"q{number}", task=task)
    )


def planned(
    profile: PackProfile,
    questions: Sequence[tuple[str, Pool]],
    under_way: Mapping[str, frozenset[str]] | None = None,
) -> tuple[ListPlan, BatchPlanner]:
    """Plan these tasks over their pools. under_way: the requests of one other job."""
    requests = planner(profile)
    listed = [prepared(number, task, pool) for number, (task, pool) in enumerate(questions)]
    plan = ListPlan(
        questions=QuestionList((), ""),
        options=ListOptions(),
        memories=ListMemories((), (), Scope()),
        under_way={"b_1": under_way or {}},
    )
    plan.add_up(listed, lambda *_: JudgeEstimate(), batch=requests)
    return plan, requests


def planner(profile: PackProfile) -> BatchPlanner:
    """A planner over packs assigned in order."""
    drafts = PromptBuilder(JudgeModel(name="judge-1"), profile, b"secret")

    def slots(pool: Pool) -> Slots:
        return assign_packs(pool.all_candidates, {}, profile).slots

    return BatchPlanner(drafts, slots=slots, texts=texts)


def asked(plan: BatchPlanner, question: int) -> Counter[str]:
    """Count the contents that a question's requests judge."""
    return Counter(
        piece.content_hash
        for at, ask in plan.requests
        if at == question
        for piece in plan.prompts[ask].pieces
    )


def wanted(
    pool: Pool, profile: PackProfile, requested_elsewhere: frozenset[str] = frozenset()
) -> Counter[str]:
    """Count what must be judged: each miss whole, or its unknown parts (all of them if all parts
    are known)."""
    parts: list[MemoryPiece] = []
    for miss in pool.misses:
        if miss.content_hash not in requested_elsewhere:
            parts.extend(
                memory_pieces(
                    miss, text_of(miss.start_line, miss.tokens), max_tokens=profile.tokens
                )
            )
    unknown = [piece for piece in parts if piece.content_hash not in pool.known]
    complete = {piece.memory for piece in parts} - {piece.memory for piece in unknown}
    return Counter(
        piece.content_hash
        for piece in parts
        if piece.content_hash not in pool.known or piece.memory in complete
    )


@st.composite
def lists(
    draw: st.DrawFn,
) -> tuple[PackProfile, list[tuple[str, Pool]], dict[str, frozenset[str]]]:
    """Draw packs, a pool, questions with their known judgments, and the requests of other jobs."""
    profile = PackProfile(
        tokens=draw(st.sampled_from([200, 400])), size=draw(st.sampled_from([1, 2, 5, 20]))
    )
    sizes = draw(st.lists(st.sampled_from([5, 40, 120, 199, 950]), max_size=24))
    everything = tuple(member(number, tokens) for number, tokens in enumerate(sizes))
    parts = [
        part
        for candidate in everything
        for part in memory_pieces(
            candidate, texts([candidate])[candidate.id], max_tokens=profile.tokens
        )
    ]
    known_parts = st.sets(st.sampled_from(parts)) if parts else st.just(set[MemoryPiece]())
    tasks = draw(st.lists(st.sampled_from("abcd"), min_size=1, max_size=5))
    known_by_task: dict[str, Known] = {}
    for task in tasks:
        if task not in known_by_task:
            judged = draw(known_parts) if draw(st.booleans()) else set()
            known_by_task[task] = {
                part.content_hash: Judgment(part.content_hash, 0.5) for part in judged
            }
    contents = [part.content_hash for part in everything]
    elsewhere = (
        st.frozensets(st.sampled_from(contents)) if contents else st.just(frozenset[str]())
    )
    under_way = {
        f"key of {task}": draw(elsewhere) for task in set(tasks) if draw(st.booleans())
    }
    pools = {
        task: pool_among(everything, everything, known_by_task[task]) for task in known_by_task
    }
    return profile, [(task, pools[task]) for task in tasks], under_way


@given(lists())
@settings(max_examples=120, deadline=None)
def test_every_miss_is_in_exactly_one_request_of_its_question(
    drawn: tuple[PackProfile, list[tuple[str, Pool]], dict[str, frozenset[str]]],
) -> None:
    """What a question lacks is asked once, whole or in parts; equal questions do not ask twice."""
    profile, questions, under_way = drawn
    plan, requests = planned(profile, questions, under_way)
    seen = set[str]()
    for number, (task, pool) in enumerate(questions):
        requested_elsewhere = under_way.get(f"key of {task}", frozenset())
        expected = (
            wanted(pool, profile, requested_elsewhere) if task not in seen else Counter[str]()
        )
        assert asked(requests, number) == expected
        seen.add(task)
    assert len(set(requests.requests)) == len(requests.requests)
    assert plan.candidates == sum(len(pool.candidates) for _, pool in questions)
    remaining = plan.candidates - plan.cached - plan.repeated - plan.elsewhere
    assert plan.to_judge == remaining
    for ask in requests.prompts:
        assert 1 <= len(ask.pieces) <= profile.size
        assert all(not piece.text for piece in ask.pieces)


@given(st.integers(2, 6), st.sampled_from([1, 3, 20]))
@settings(max_examples=20, deadline=None)
def test_questions_that_know_nothing_share_every_prompt(questions: int, size: int) -> None:
    """Prompts are stored once however many questions use them, in packs and one memory a prompt."""
    everything = tuple(member(number, 60) for number in range(30))
    pool = pool_among(everything, everything, {})
    _, plan = planned(
        PackProfile(tokens=400, size=size),
        [(f"task {number}", pool) for number in range(questions)],
    )
    assert len(plan.requests) == questions * len(plan.prompts)
    assert len(plan.prompts) == len({ask for _, ask in plan.requests})


def test_a_question_that_knows_a_little_shares_the_packs_of_which_it_knows_nothing() -> None:
    """Only the pack with a known memory is rebuilt, from its misses."""
    everything = tuple(member(number, 60) for number in range(30))
    known_hash = everything[0].content_hash
    profile, new = (
        PackProfile(tokens=400, size=5),
        ("first", pool_among(everything, everything, {})),
    )
    _, alone = planned(profile, [new])
    _, both = planned(
        profile,
        [
            new,
            (
                "second",
                pool_among(everything, everything, {known_hash: Judgment(known_hash, 0.1)}),
            ),
        ],
    )
    assert len(both.prompts) == len(alone.prompts) + 1
