"""Where words rank: what passed keeps its place, groups share one, and free places are filled from
the near ones."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from xscore.pipeline.composition import TaskAim, aim_of
from xscore.pipeline.selection_by_words import select_by_words
from xscore.records.candidates import Candidate
from xscore.records.judgment import (
    FILL,
    Judgment,
    Origin,
    PlacedBy,
    Ranked,
    Selection,
    Thresholds,
)
from xscore.records.memory import Kind, Layer
from xscore.records.turn import Scope, Turn
from xscore.settings import SelectionSettings

SETTINGS = SelectionSettings()
CUT = SETTINGS.lexical_threshold


def ranked(
    name: str, score: float, *, kind: Kind = Kind.FUNCTION, path: str = "", entity: str = ""
) -> Ranked:
    """A memory scored by words."""
    entity = entity or name
    candidate = Candidate(
        name,
        f"h{name}",
        Layer.GRAPH,
        kind,
        path or f"{name}.py",
        entity,
        1,
        9,
        "python",
        90,
        0.0,
    )
    return Ranked(
        candidate,
        Judgment(f"h{name}", score, "text has cart", prior=score),
        Origin.JUDGED,
        (),
        score,
    )


def keep(
    pool: Sequence[Ranked],
    settings: SelectionSettings = SETTINGS,
    *,
    subjects: frozenset[Kind] = frozenset(),
) -> Selection:
    """Select by words at the default threshold."""
    return select_by_words(
        pool, thresholds=Thresholds(CUT), settings=settings, aim=TaskAim(subjects)
    )


def names(ranked_memories: Sequence[Ranked]) -> list[str]:
    """Return the ids, in order."""
    return [memory.candidate.id for memory in ranked_memories]


def test_free_places_are_filled_where_the_best_is_good_enough() -> None:
    """A memory just below the threshold is kept with a wrong one above it, marked; weak
    rankings stay empty."""
    near = [ranked(f"n{at:02}", CUT - (at + 1) / 1000) for at in range(20)]
    selection = keep([ranked("wrong", 0.6), *near])
    assert names(selection.kept) == ["wrong", *names(near[: FILL.target_places - 1])]
    assert selection.filled == frozenset(names(near[: FILL.target_places - 1]))
    assert selection.placed_by["wrong"] == PlacedBy.THRESHOLD
    assert selection.placed_by["n00"] == PlacedBy.FILLED
    least = FILL.share * CUT
    alone = keep([ranked("best", least), ranked("far", least - 0.001)])
    assert (names(alone.kept), alone.has_passed) == (["best"], False)
    assert keep([ranked("best", least - 0.001)]).kept == ()


def test_other_kinds_fill_few_places() -> None:
    """Near tests, documents and text take at most three places of those that are filled, unless
    they are asked for."""
    other_kinds = [
        ranked(f"d{at}", CUT - 0.001, kind=kind)
        for at, kind in enumerate([Kind.DOC, Kind.TEXT, Kind.TEST] * 3)
    ]
    code = [ranked(f"c{at:02}", CUT - 0.005) for at in range(20)]
    selection = keep([*other_kinds, *code])
    assert (
        sum(memory.candidate.kind is not Kind.FUNCTION for memory in selection.kept)
        == FILL.other_kinds
    )
    assert len(selection.kept) == FILL.target_places
    asked_for = keep(
        [*other_kinds, *code], subjects=frozenset({Kind.DOC, Kind.TEXT, Kind.TEST})
    )
    assert sum(memory.candidate.kind is not Kind.FUNCTION for memory in asked_for.kept) == len(
        other_kinds
    )
    assert len(keep(other_kinds).kept) == len(other_kinds), "there is no code"


def test_nothing_that_passed_is_lost() -> None:
    """Documents that passed keep their places, and code still fills as if they were three."""
    documents = [ranked(f"d{at}", 0.9, kind=Kind.DOC) for at in range(4)]
    selection = keep([*documents, *[ranked(f"c{at:02}", CUT - 0.005) for at in range(20)]])
    assert set(names(documents)) <= set(names(selection.kept))
    assert len(selection.kept) == len(documents) + FILL.target_places - FILL.other_kinds


def test_tests_of_one_file_take_one_place() -> None:
    """The best test of a file has a line that counts the others; they are near misses, folded, and
    none is lost."""
    tests = [
        ranked(f"t{at}", 0.9 - at / 100, kind=Kind.TEST, path="t/unit/test_schedules.py")
        for at in range(5)
    ]
    selection = keep([*tests, ranked("schedules", CUT - 0.005)])
    assert names(selection.kept) == ["t0", "schedules"]
    assert (
        selection.kept[0].judgment.reason
        == "and 4 more tests in t/unit/test_schedules.py; text has cart"
    )
    assert (selection.folded, names(selection.near_misses[:4])) == (4, ["t1", "t2", "t3", "t4"])
    assert {selection.placed_by[name] for name in ("t1", "t4")} == {PlacedBy.FOLDED}


def test_copies_in_sibling_packages_take_one_place() -> None:
    """`useQuery` of react-, preact- and vue-query is one line that names the others; what reads
    otherwise is not."""
    paths = [
        f"packages/{name}/src/useQuery.ts"
        for name in ("react-query", "preact-query", "vue-query", "solid")
    ]
    pool = [
        ranked(f"u{at}", 0.9 - at / 100, path=path, entity="useQuery")
        for at, path in enumerate(paths)
    ]
    texts = {"u0": "return observe(client, options)", "u3": "a signal of its own"}
    read = {memory.candidate.id: texts.get(memory.candidate.id, texts["u0"]) for memory in pool}
    selection = select_by_words(
        pool, thresholds=Thresholds(CUT), settings=SETTINGS, texts=lambda _ids: read
    )
    assert (names(selection.kept), selection.folded) == (["u0", "u3"], 2)
    assert selection.kept[0].judgment.reason.startswith(f"the same in {paths[1]}, {paths[2]}; ")


def test_copies_anywhere_take_one_place() -> None:
    """A function that seven notebooks hold is one line that names three others; one of its name
    that does something else has its own."""
    pool = [
        ranked(f"r{at}", 0.9 - at / 100, path=f"ch{at}/model{at}.ipynb", entity="apply_rope")
        for at in range(8)
    ]
    rows = "half = x.shape[-1] // 2 ; first, second = x[:half], x[half:] ; return rotate(first)"
    read = {f"r{at}": f"def apply_rope(x): {rows}" for at in range(7)}
    read["r1"] = read["r7"] = (
        "def apply_rope(x, freqs, positions): return x * cos + flip(x) * sin"
    )
    selection = select_by_words(
        pool, thresholds=Thresholds(CUT), settings=SETTINGS, texts=lambda _ids: read
    )
    assert (names(selection.kept), selection.folded) == (["r0", "r1"], 6)
    reasons = [entry.judgment.reason for entry in selection.kept]
    assert reasons[0].startswith(
        "the same in ch2/model2.ipynb, ch3/model3.ipynb, ch4/model4.ipynb and 2 more files; "
    )
    assert reasons[1].startswith("the same in ch7/model7.ipynb; ")


def test_a_data_file_has_one_near_window() -> None:
    """Nine windows of one file without an extension are one near miss, and one place at most."""
    windows = [
        ranked(f"w{at}", 0.009, kind=Kind.TEXT, path="testdata/policy_36") for at in range(9)
    ]
    selection = keep([*windows, ranked("policy", 0.008)])
    assert sorted(names(selection.near_misses)) == ["policy", "w0"]


def test_what_a_task_is_about() -> None:
    """By its words, its types, and the documents that it names."""
    turns = {
        "add a test for the parser": {Kind.TEST},
        "mention it in the changelog": {Kind.DOC},
        "update docs/guide.md": {Kind.DOC, Kind.TEXT},
        "fix the parser": set(),
    }
    for task, kinds in turns.items():
        about_tests = Kind.TEST in kinds
        assert aim_of(Turn(task=task), about_tests=about_tests).subjects == kinds, task
    assert aim_of(Turn(task="x", scope=Scope(kinds=("doc",))), about_tests=False).subjects == {
        Kind.DOC
    }


@given(
    pool=st.lists(
        st.tuples(st.integers(0, 100), st.sampled_from([*Kind]), st.integers(0, 4)), max_size=50
    ),
    k=st.integers(1, 20),
    least=st.integers(0, 25),
)
def test_every_candidate_is_counted_once(
    pool: list[tuple[int, Kind, int]], k: int, least: int
) -> None:
    """Kept, folded, below and beyond K add up; what passed is kept, folded or beyond; the kept are
    at most K."""
    outcomes = [
        ranked(f"m{n:02}", s / 100, kind=kind, path=f"p{at}")
        for n, (s, kind, at) in enumerate(pool)
    ]
    selection = keep(outcomes, SelectionSettings(top_k=k, min_keep=least))
    counted = selection.folded + selection.below_threshold + selection.beyond_k
    assert len(selection.kept) + counted == len(outcomes)
    assert min(k, len(selection.kept)) == len(set(names(selection.kept)))
    passed = {memory.candidate.id for memory in outcomes if memory.score >= CUT}
    shown = {*names(selection.kept), *names(selection.near_misses)}
    assert passed <= shown and len(shown) == len(selection.kept) + len(selection.near_misses)
    assert {name for name in names(selection.kept) if name not in passed} == selection.filled
    scores = [memory.score for memory in selection.kept]
    assert scores == sorted(scores, reverse=True)
