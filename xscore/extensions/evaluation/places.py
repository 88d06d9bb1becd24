"""Where the cases of an evaluation are asked: the files as they are, or a commit of a repository.

At a commit nothing is a candidate but what the repository said then: its files, and what git knows
of the time before. Exchanges, stated memories and the user's own store are not there. Prompts,
judgments and boosts are those of any turn. Cases of one commit follow each other, from the oldest
on, so that each version of a file is parsed once.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from decimal import Decimal
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from xscore.costs.caps import Caps, add_spending
from xscore.extensions.evaluation import trees
from xscore.extensions.evaluation.cases import EvalCase
from xscore.pipeline.assembly import with_adapted_judge
from xscore.pipeline.build import Pipeline
from xscore.pipeline.judge_description import JudgeDescription
from xscore.pipeline.parts import PipelineParts
from xscore.pipeline.question_list import list_caps_left
from xscore.platform import database
from xscore.platform.clock import day_of
from xscore.platform.errors import NothingMatched
from xscore.platform.files import leads_out
from xscore.platform.git import commit_named
from xscore.platform.paths import user_data_dir
from xscore.platform.text import one_line
from xscore.settings import Settings

NO_CLONE = "no clone of the repository"
NO_COMMIT = "the parent commit is not in the clone"


class Stop(Struct, frozen=True):
    """Cases that are asked of the same files."""

    repository: str
    parent: str
    """Commit whose files are asked about; empty: the files as they are."""
    numbers: tuple[int, ...]
    """CasePlaces of the cases in their file."""


def plan_stops(cases: Sequence[EvalCase], skipped: frozenset[str] = frozenset()) -> list[Stop]:
    """Return where to ask the cases, each repository from its oldest commit on.

    skipped: ids of cases that are not asked.
    """
    numbers: dict[tuple[str, str], list[int]] = {}
    first_dates: dict[tuple[str, str], str] = {}
    # From the end: `eval mine` writes the newest first.
    for number in range(len(cases) - 1, -1, -1):
        case = cases[number]
        if case.id in skipped:
            continue
        place = case.repository, case.parent
        numbers.setdefault(place, []).insert(0, number)
        first_dates.setdefault(place, case.date)
    places = sorted(numbers, key=lambda place: (place[0], bool(place[1]), first_dates[place]))
    return [Stop(*place, tuple(numbers[place])) for place in places]


class CasePlaces(Struct, frozen=True):
    """The places of one evaluation."""

    base: PipelineParts
    """The repository in which the command runs, with the judge of all cases."""
    clones: Path | None = None
    """The folder that `--repositories` names."""
    max_usd: Decimal | None = None
    """What the caps of this repository left when the run began."""

    @asynccontextmanager
    async def parts_at(self, stop: Stop) -> AsyncIterator[PipelineParts]:
        """Go there; the files are those of the stop until it is left.

        Raises NothingMatched where there is no such commit here, StoreError.
        """
        if not stop.parent and not stop.repository:
            yield self.base
            return
        source = self._source(stop.repository)
        commit = _commit(source.root, stop.parent or "HEAD")
        with trees.private_tree(source, self._data_dir) as tree:
            if not trees.check_out(tree, commit):
                raise NothingMatched(
                    NO_COMMIT, hint="Fetch the whole history: no shallow clone."
                )
            settings = _settings_there(self.base.given, self.max_usd)
            async with Pipeline.open(tree, settings, observer=self.base.observer) as pipeline:
                parts = replace(pipeline.parts, resources_opener=self.base.resources_opener)
                yield with_adapted_judge(parts, self._as_measured_here)

    def _as_measured_here(self, judge: JudgeDescription) -> JudgeDescription:
        """Return a judge with the cuts and the weight that were measured for it in the repository
        in which the command runs: the store of the past has none."""
        if self.base.adapt_judge is not None:
            judge = self.base.adapt_judge(judge)
        base = self.base.judge
        return replace(
            judge,
            calibration=base.calibration,
            thresholds=base.thresholds,
            words_weight=base.words_weight,
        )

    def charge(self, parts: PipelineParts, usd: Decimal, turn_id: str) -> None:
        """Count what a turn elsewhere cost under the caps of this repository."""
        if parts is self.base or not usd:
            return
        caps = Caps.of(self.base.settings.budget)
        day = day_of(self.base.clock())
        with database.transaction(self.base.store.connection) as connection:
            add_spending(connection, caps, usd, turn_id=turn_id, day=day)

    def cap_left(self) -> Decimal | None:
        """Return what the caps of this repository leave for the run; None if there is none."""
        caps = list_caps_left(self.base)
        return min((cap.left_usd for cap in caps), default=None)

    def remove_files(self) -> None:
        """Remove the files that runs have written, this one and any that was killed."""
        trees.remove_files(self._data_dir)

    @property
    def _data_dir(self) -> Path:
        return user_data_dir(self.base.settings.store.user_data_dir)

    def _source(self, repository: str) -> trees.SourceRepository:
        if not repository:
            return trees.source_repository(self.base.root.path)
        for name in _folder_names(repository):
            if self.clones is not None and (self.clones / name / ".git").exists():
                return trees.source_repository(self.clones / name)
        # What was not asked is listed by this message alone, so it names the way out too.
        where = " (name the folder of the clones with --repositories)"
        if self.clones is not None:
            where = f" in {self.clones}"
        raise NothingMatched(
            f"{NO_CLONE}{where}: {one_line(repository)}",
            hint="Name the folder of the clones with --repositories.",
        )


def _folder_names(repository: str) -> list[str]:
    """Return the names that the clone of `owner/name` may have; none that leads out."""
    owner, _, name = repository.rpartition("/")
    names = [repository, f"{owner}+{name}", f"{owner}__{name}", f"{owner}-{name}", name]
    return [name for name in names if name and not leads_out(name)]


def _commit(root: Path, name: str) -> str:
    """Return the full id of a commit. Raises NothingMatched."""
    commit = commit_named(root, name)
    if not commit:
        raise NothingMatched(NO_COMMIT, hint="Fetch the whole history: no shallow clone.")
    return commit


def _settings_there(settings: Settings, max_usd: Decimal | None) -> Settings:
    """Return the user's settings without what belongs to the present: the own store, and caps that
    count what this repository has spent."""
    budget = replace(
        settings.budget, max_usd=max_usd, max_usd_day=None, max_usd_repository=None
    )
    memory = replace(settings.memory, user_learning=False)
    return replace(settings, budget=budget, memory=memory)
