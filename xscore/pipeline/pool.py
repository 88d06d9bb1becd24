"""The candidates of a turn: every memory in the user's scope, with existing judgments.

It judges nothing. Memories outside the scope are counted.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING

from msgspec import Struct

from xscore.cache.judgments import read_judgments, read_reasons
from xscore.cache.keys import FIRST_DRAW, SECOND_DRAW
from xscore.platform.errors import NothingMatched, UsageError
from xscore.platform.text import counted, one_line
from xscore.records.candidates import Candidate, TermColumn, content_hash_of
from xscore.records.judgment import Judgment, Origin, Outcome, Ranked
from xscore.records.memory import Kind, Layer
from xscore.records.turn import Scope, Turn
from xscore.store.store import Store

if TYPE_CHECKING:
    from xscore.store.turns import Wording


class ThreadPlan(Struct, frozen=True, kw_only=True):
    """Judgments by earlier turns of the thread of contents that this wording's cache lacks; all by
    content hash."""

    carry_mode: str
    """See `CarriedOver.way`."""
    because: str
    carried: Mapping[str, Judgment] = {}
    """Judgments that are taken over, so that they are not sent."""
    spare: Mapping[str, Judgment] = {}
    """Earlier judgments of what is sent; taken where a cap or the deadline comes first."""
    wordings: "Mapping[str, Wording]" = {}
    """The turn that made each of these judgments."""
    first: AbstractSet[str] = frozenset()
    """Contents that are judged before all others."""
    priors: Mapping[str, float] = {}
    """Lexical priors of all candidates, 0..1 by memory id, which the judge needs too; empty: not
    worked out."""


FILE_LAYERS = frozenset({Layer.GRAPH, Layer.VECTOR})
"""Layers whose memories come from files."""
_SHOWN_KINDS = frozenset({Kind.CONVENTION, Kind.TECH_STACK})
"""Kinds of what files show; the few of a session, not reviewed yet, are in no clone."""


class Pool(Struct, frozen=True):
    """The candidates of a turn and their known judgments."""

    all_candidates: tuple[Candidate, ...]
    """All memories, including those outside the scope, since packs are made of all."""
    candidates: tuple[Candidate, ...]
    known: Mapping[str, Judgment]
    """Judgments from the cache, by content hash."""
    misses: tuple[Candidate, ...]
    """Candidates to judge: those that no earlier turn judged for this key, less what the thread
    carries over."""
    judged_this_turn: AbstractSet[str] = frozenset()
    """Known contents that were judged for this turn, in prompts shared with other turns."""
    thread: ThreadPlan | None = None
    """Plan of a follow-up; None if it is no follow-up in a thread, or nothing is missing."""
    terms: TermColumn = TermColumn()
    """Term vectors of all candidates; empty if the judge is a model, which needs none where all
    is known."""

    @property
    def carried(self) -> int:
        """How many candidates keep the judgment of an earlier wording without being sent."""
        if self.thread is None or not self.thread.carried:
            return 0
        carried = self.thread.carried
        return sum(candidate.content_hash in carried for candidate in self.candidates)

    def wording_of(self, outcome: Outcome | Ranked) -> "Wording | None":
        """Return the wording under which it was judged; None: this one."""
        hash_ = outcome.candidate.content_hash
        if outcome.origin is not Origin.CARRIED or self.thread is None or hash_ in self.known:
            return None
        return self.thread.wordings.get(hash_)

    def known_outcomes(self, turn: Turn) -> list[Outcome | None]:
        """Return the outcome of each candidate that has a judgment, in order; None for one that is
        to be judged."""
        # A turn that is continued carries over what it had judged.
        origin = Origin.CARRIED if turn.continues else Origin.CACHED
        outcomes = Outcome.from_known(self.candidates, self.known, origin)
        if self.judged_this_turn:
            for place, outcome in enumerate(outcomes):
                if outcome and outcome.result.content_hash in self.judged_this_turn:
                    outcomes[place] = outcome._replace(origin=Origin.JUDGED)
        if self.thread is not None and self.thread.carried:
            carried = Outcome.from_known(self.candidates, self.thread.carried, Origin.CARRIED)
            both = zip(outcomes, carried, strict=True)
            outcomes = [outcome or earlier for outcome, earlier in both]
        return outcomes


class PooledTurn(Struct, frozen=True):
    """A completed turn with its candidates."""

    turn: Turn
    """The turn, complete and redacted."""
    key: str
    """Key of the turn."""
    pool: Pool


def pool_among(
    all_candidates: tuple[Candidate, ...],
    candidates: tuple[Candidate, ...],
    judgments: Mapping[str, Judgment],
) -> Pool:
    """Build a pool of these candidates; if nothing is known, the misses are the same tuple."""
    if not judgments:
        return Pool(all_candidates, candidates, judgments, candidates)
    return Pool(all_candidates, candidates, judgments, _not_judged(candidates, judgments))


def _not_judged(
    candidates: Sequence[Candidate], judgments: Mapping[str, Judgment]
) -> tuple[Candidate, ...]:
    hashes = map(content_hash_of, candidates)
    # Looked for at once: where a turn is asked again, none is missing.
    if all(map(judgments.__contains__, hashes)):
        return ()
    return tuple([memory for memory in candidates if memory.content_hash not in judgments])


def narrow_to_scope(
    all_candidates: tuple[Candidate, ...], scope: Scope
) -> tuple[Candidate, ...]:
    """Keep candidates in the scope. Raises UsageError for an unknown kind or layer."""
    for option, chosen, members in (
        ("kind", scope.kinds, Kind),
        ("layer", scope.layers, Layer),
    ):
        names = [str(member) for member in members]
        for name in chosen:
            if name not in names:
                raise UsageError(
                    f"there is no {option} `{name}`", hint=f"One of: {', '.join(names)}."
                )
    if not (scope.paths or scope.kinds or scope.layers or scope.within):
        return all_candidates
    candidates = all_candidates
    if scope.kinds:
        candidates = tuple([memory for memory in candidates if memory.kind in scope.kinds])
    if scope.layers:
        candidates = tuple([memory for memory in candidates if memory.layer in scope.layers])
    inside = _path_test(scope)
    return tuple([memory for memory in candidates if not memory.path or inside(memory.path)])


def refuse_empty_scope(
    all_candidates: Sequence[Candidate], inside: Sequence[Candidate], scope: Scope
) -> None:
    """Raise NothingMatched if the scope excludes every candidate.

    Memories without a path pass every glob and folder, but alone they do not satisfy one.
    """
    is_about_files = bool(scope.paths or scope.within) and not (scope.kinds or scope.layers)
    if not all_candidates or any(candidate.path or not is_about_files for candidate in inside):
        return
    arguments = [
        *scope.within,
        *(f"--glob {glob}" for glob in scope.paths),
        *(f"--kind {kind}" for kind in scope.kinds),
        *(f"--layer {layer}" for layer in scope.layers),
    ]
    hint = "`xscore memory list` lists them."
    if scope.paths:
        hint = f"Globs are as in .gitignore, from the root of the repository. {hint}"
    raise NothingMatched(f"no memory matches {' '.join(map(one_line, arguments))}", hint=hint)


def _path_test(scope: Scope) -> Callable[[str], bool]:
    matches = _glob_test(scope.paths)
    folders = tuple(f"{name}/" for name in scope.within if name != ".")
    if not scope.within or "." in scope.within:
        return matches
    return lambda path: f"{path}/".startswith(folders) and matches(path)


def _glob_test(globs: Sequence[str]) -> Callable[[str], bool]:
    if not globs:
        return lambda path: True
    from xscore.platform.globs import GlobList  # few scopes are globs

    try:
        rules = GlobList(globs)
    except (ValueError, re.error) as error:
        raise UsageError(
            f"--glob: {' '.join(globs)} is not a valid glob: {error}",
            hint="Globs are as in .gitignore.",
        ) from error
    return lambda path: bool(rules.verdict(path))


def known_judgments(store: Store, turn_key: str, *judges: str) -> Mapping[str, Judgment]:
    """Return every judgment of this turn by these judges (their keys), by content hash; if
    there are two draws, their mean.

    Where several judged the same content, the first of them counts. Raises StoreDamaged.
    """
    judgments: dict[str, Judgment] = {}
    # The later overwrite the earlier, so the judge that counts first comes last.
    for judge in reversed(judges):
        for connection in store.connections_of_a_turn():
            first_draws = read_judgments(connection, (turn_key, judge, FIRST_DRAW))
            second_draws = read_judgments(connection, (turn_key, judge, SECOND_DRAW))
            judgments |= first_draws
            for hash_, second in second_draws.items():
                if hash_ in first_draws:
                    judgments[hash_] = first_draws[hash_].averaged_with(second)
    return judgments


def known_or_taken_over(
    store: Store,
    turn_key: str,
    judge: str,
    candidates: Sequence[Candidate],
    *,
    note: Callable[[str], None] = lambda _: None,
) -> Mapping[str, Judgment]:
    """Return the known judgments, after taking over those that other worktrees, clones and the
    joined repositories hold of the same contents.

    Only of contents of files, and of what files show: what was said in one place stays there, and
    so do reasons. note: called with how many it took. Raises StoreDamaged, StoreError.
    """
    judgments = known_judgments(store, turn_key, judge)
    missing = [
        candidate.content_hash
        for candidate in _not_judged(candidates, judgments)
        if _comes_from_files(candidate)
    ]
    if missing:
        stores = [*store.siblings(), *store.others.plain_stores()]
    else:
        stores = []
    if not stores:
        return judgments
    from xscore.cache.copied_judgments import copy_judgments  # few turns have one

    taken = 0
    for draw in (FIRST_DRAW, SECOND_DRAW):
        taken += copy_judgments(store.connection, (turn_key, judge, draw), missing, stores)
    if not taken:
        return judgments
    note(f"{counted(taken, 'judgment')} came from other stores, without reasons")
    return known_judgments(store, turn_key, judge)


def _comes_from_files(candidate: Candidate) -> bool:
    """Whether files hold it or show it, so that a clone has the same."""
    if candidate.layer in FILE_LAYERS:
        return True
    is_of_project = candidate.layer is Layer.PROJECT and candidate.is_inferred
    return is_of_project and candidate.kind in _SHOWN_KINDS


def stored_reasons(
    store: Store, turn_key: str, judges: Iterable[str], hashes: Iterable[str]
) -> Mapping[str, str]:
    """Return the reasons that these judges (their keys) gave of these contents, by content hash."""
    content_hashes = list(hashes)
    reasons: dict[str, str] = {}
    if not content_hashes:
        return reasons
    for judge in judges:
        for connection in store.connections_of_a_turn():
            reasons |= read_reasons(connection, (turn_key, judge, FIRST_DRAW), content_hashes)
    return reasons
