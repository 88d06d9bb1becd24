"""The candidates of a turn: every memory, narrowed only as the user asked, with the judgments that exist already.

It judges nothing. What a narrowing leaves out is counted.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet

from msgspec import Struct

from xscore.cache.judgments import Judgments
from xscore.platform.errors import NothingMatched, UsageError
from xscore.platform.text import one_line
from xscore.records import Candidate, Judgment, Kind, Layer, Origin, Scope
from xscore.store.store import Store


class Pool(Struct, frozen=True):
    """The candidates of a turn and what is already known of them."""

    all_candidates: tuple[Candidate, ...]
    """All memories, also those the user's narrowing leaves out: packs are made of all."""
    candidates: tuple[Candidate, ...]
    known: Mapping[str, Judgment]
    """By content hash, from the cache."""
    misses: tuple[Candidate, ...]
    """Candidates that no earlier turn judged for this key."""
    judged_this_turn: AbstractSet[str] = frozenset()
    """Contents among the known that were judged for this very turn, in prompts that it shared with others."""

    def judged_here(self, candidate: Candidate, origin: Origin) -> bool:
        """Whether a result was judged as this turn ran, so that it comes with its reason."""
        return origin is Origin.JUDGED and candidate.content_hash not in self.judged_this_turn


def pool_in_scope(all_candidates: tuple[Candidate, ...], scope: Scope, known: Mapping[str, Judgment]) -> Pool:
    """Put a turn's pool together. Raises UsageError for a kind or layer that does not exist."""
    return pool_among(all_candidates, narrow_to_scope(all_candidates, scope), known)


def pool_among(
    all_candidates: tuple[Candidate, ...], candidates: tuple[Candidate, ...], known: Mapping[str, Judgment]
) -> Pool:
    """Put a pool of these candidates together; where nothing is known, the misses are the very same tuple."""
    if not known:
        return Pool(all_candidates, candidates, known, candidates)
    misses = tuple([candidate for candidate in candidates if candidate.content_hash not in known])
    return Pool(all_candidates, candidates, known, misses)


def narrow_to_scope(all_candidates: tuple[Candidate, ...], scope: Scope) -> tuple[Candidate, ...]:
    """Keep what the user's narrowing names."""
    _check_names("kind", scope.kinds, Kind)
    _check_names("layer", scope.layers, Layer)
    if not (scope.paths or scope.kinds or scope.layers):
        return all_candidates
    inside = _path_test(scope.paths)
    return tuple(
        candidate
        for candidate in all_candidates
        if (not scope.kinds or candidate.kind in scope.kinds)
        and (not scope.layers or candidate.layer in scope.layers)
        and (not candidate.path or inside(candidate.path))
    )


def refuse_empty_scope(all_candidates: Sequence[Candidate], inside: Sequence[Candidate], scope: Scope) -> None:
    """Stop where the user's narrowing leaves nothing of what there is. Raises NothingMatched."""
    if inside or not all_candidates:
        return
    named = [("--path", scope.paths), ("--kind", scope.kinds), ("--layer", scope.layers)]
    asked = " ".join(one_line(f"{flag} {word}") for flag, words in named for word in words)
    hint = "Globs are as in .gitignore, from the root of the repository. " if scope.paths else ""
    raise NothingMatched(f"no memory matches {asked}", hint=f"{hint}`xscore memory list` names those there are.")


def _check_names(what: str, given: Sequence[str], known: type[Kind] | type[Layer]) -> None:
    names = [str(member) for member in known]
    for name in given:
        if name not in names:
            raise UsageError(f"there is no {what} `{name}`", hint=f"One of: {', '.join(names)}.")


def _path_test(globs: Sequence[str]) -> Callable[[str], bool]:
    if not globs:
        return lambda path: True
    from pathspec import PathSpec

    try:
        return PathSpec.from_lines("gitignore", globs).match_file
    except (ValueError, re.error) as error:
        raise UsageError(
            f"--path: {' '.join(globs)} is no glob: {error}", hint="Globs are as in .gitignore."
        ) from error


def known_judgments(store: Store, turn_key: str, judge: str) -> Mapping[str, Judgment]:
    """Return every judgment of this turn by this judge (its key), by content hash. Raises StoreDamaged."""
    connections = store.connections_of_a_turn()
    found, *others = [Judgments(connection).known_under(turn_key, judge) for connection in connections]
    for other in others:
        found |= other
    return found


def stored_reasons(store: Store, turn_key: str, judge: str, hashes: Iterable[str]) -> Mapping[str, str]:
    """Return the reasons kept for these contents, by content hash, where there are any."""
    wanted, found = list(hashes), dict[str, str]()
    for connection in store.connections_of_a_turn() if wanted else ():
        found |= Judgments(connection).reasons(turn_key, judge, wanted)
    return found
