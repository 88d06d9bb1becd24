"""Memories of other repositories in a turn's pool: which are opened, and how many join.

They are judged like the turn's own and kept only where they score higher, so no places are reserved
for them and none kept from them. What bounds them is what they cost: `index.also_memories` for all
of them together, and where there are more, words choose. A repository that cannot be read costs a
warning. Trade-off: which memories of a large repository are judged depends on the task, so one that
words put last is not looked at, as it would be in the repository itself.
"""

from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path

from msgspec.structs import replace

from xscore.pipeline.parts import PipelineParts
from xscore.pipeline.turn_stages import JoinedPool
from xscore.platform.errors import NothingMatched, XscoreError
from xscore.platform.git_folder import origin_url
from xscore.platform.paths import is_folder_name, user_data_dir
from xscore.platform.repository_name import repository_name
from xscore.platform.text import join_sentences, one_line
from xscore.records.candidates import Candidate, TermColumn
from xscore.records.receipt import JoinedRepository
from xscore.records.turn import Turn
from xscore.scorer.lexical import lexical_priors
from xscore.store.fetched_pool import FetchedPool
from xscore.store.other_places import OtherPlace, find_other
from xscore.store.other_repository import NAME_END, OtherRepository


def join_others(parts: PipelineParts, turn: Turn, fetched: FetchedPool) -> JoinedPool:
    """Return the pool with memories of the repositories that the turn and the settings name.

    turn: complete.
    """
    names = tuple(dict.fromkeys((*turn.scope.also, *parts.settings.index.also)))
    problems = open_others(parts, names)
    lent_by = _lent_by_name(parts, fetched.candidates, problems)
    joined = _within_budget(parts, turn, list(chain.from_iterable(lent_by.values())))
    joined_ids = {candidate.id for candidate in joined}
    also: list[JoinedRepository] = []
    for name, lent in lent_by.items():
        count = sum(candidate.id in joined_ids for candidate in lent)
        also.append(JoinedRepository(name, count, len(lent) - count))
    # A path is this machine's business, and no part of a turn.
    not_found = [name for name in problems if not is_folder_name(name)]
    scope = replace(turn.scope, also=(*lent_by, *not_found))
    return JoinedPool(
        _with_joined(parts, fetched, joined), scope, tuple(also), tuple(problems.values())
    )


def _lent_by_name(
    parts: PipelineParts, candidates: Sequence[Candidate], problems: dict[str, str]
) -> dict[str, list[Candidate]]:
    """Return what each open repository has that is not here, by its name.

    One that cannot be read is closed, and its warning added to `problems`.
    """
    known_hashes = {candidate.content_hash for candidate in candidates}
    own_paths = {candidate.path for candidate in candidates}
    lent_by: dict[str, list[Candidate]] = {}
    for repository in parts.store.others:
        try:
            _refuse_look_alikes(repository.name, own_paths)
            lent = repository.candidates(tests=parts.settings.judge.tests)
            remark = repository.remark()
        except XscoreError as error:
            problems[repository.name] = _not_joined(repository.name, error)
            # The rest of the turn would read it, too, and fail.
            parts.store.others.close_one(repository)
            continue
        if remark:
            parts.observer.note(remark)
        # What is here, too, or in another of them, is judged once, as what is here.
        new = [candidate for candidate in lent if candidate.content_hash not in known_hashes]
        known_hashes.update([candidate.content_hash for candidate in new])
        lent_by[repository.name] = new
    return lent_by


def _refuse_look_alikes(name: str, own_paths: Iterable[str]) -> None:
    """Raise NothingMatched where a file here could pass for one of the other repository."""
    begins = f"{name}{NAME_END}"
    look_alike = next((path for path in own_paths if path.startswith(begins)), "")
    if look_alike:
        raise NothingMatched(
            f"{one_line(look_alike)} here has a name like a file of that repository",
            hint="Rename the file.",
        )


def open_others(parts: PipelineParts, names: Sequence[str]) -> dict[str, str]:
    """Open these repositories in addition to the store, instead of those that were; return a
    warning for each that cannot be read, by name.

    names: as `find_other` takes them.
    """
    store = parts.store
    problems: dict[str, str] = {}
    store.others.close()
    data_dir = user_data_dir(parts.settings.store.user_data_dir)
    for name in names:
        try:
            place = find_other(name, root=store.root, user_data_dir=data_dir)
            is_open = place is None or place.root.store_file in _open_files(store.others)
            if place is not None and not is_open:
                apart = _told_apart(place, [repository.name for repository in store.others])
                opened = OtherRepository.open(apart, user_data_dir=data_dir)
                store.others.add(opened)
        except XscoreError as error:
            problems[name] = _not_joined(name, error)
    return problems


def _open_files(repositories: Iterable[OtherRepository]) -> list[Path]:
    return [repository.root.store_file for repository in repositories]


def _told_apart(place: OtherPlace, names: Sequence[str]) -> OtherPlace:
    """Return the place under a name that no other has. Raises NothingMatched."""
    full_name = repository_name(origin_url(place.root.path))
    for name in (place.name, full_name):
        if name and name not in names:
            return replace(place, name=name)
    raise NothingMatched(
        f"another of these repositories is also called {place.name}",
        hint="Rename the folder of one of them.",
    )


def _not_joined(name: str, error: XscoreError) -> str:
    return join_sentences(f"{one_line(name)} could not be read: {error.message}", error.hint)


def _within_budget(
    parts: PipelineParts, turn: Turn, lent: Sequence[Candidate]
) -> Sequence[Candidate]:
    """Return what may be judged, in its order: where it is too much, what is nearest by words."""
    budget = parts.settings.index.also_memories
    if len(lent) <= budget:
        return lent
    score_of = lexical_priors(turn, lent, parts.store.others.term_vectors)
    nearest = sorted(lent, key=lambda candidate: -score_of[candidate.id])[:budget]
    ids = {candidate.id for candidate in nearest}
    return [candidate for candidate in lent if candidate.id in ids]


def _with_joined(
    parts: PipelineParts, fetched: FetchedPool, joined: Sequence[Candidate]
) -> FetchedPool:
    """Return the pool with these candidates after its own."""
    if not joined:
        return fetched
    terms = fetched.terms
    if terms.ids:
        ids = {candidate.id for candidate in joined}
        pairs = [pair for pair in parts.store.others.term_vectors() if pair[0] in ids]
        their_terms = TermColumn.of_pairs(pairs)
        terms = TermColumn(
            (*terms.ids, *their_terms.ids),
            (*terms.sizes, *their_terms.sizes),
            terms.entries + their_terms.entries,
        )
    return fetched._replace(candidates=(*fetched.candidates, *joined), terms=terms)
