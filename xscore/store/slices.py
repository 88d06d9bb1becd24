"""Group the files of a repository into slices: files that link to each other and change together.

Links are those of the graph; what changed together comes from commits. Groups are those of the
Louvain method: a file moves to the neighbouring group that raises modularity most, then groups move
as files did, until nothing does. The order is fixed, so the same index gives the same slices.
Trade-off: the method has a resolution: in a large repository small slices are part of larger ones.
"""

import math
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from posixpath import dirname

from msgspec import Struct
from msgspec.structs import replace

from xscore.platform.git_log import commits_with_files
from xscore.platform.hashing import file_id
from xscore.store.purposes import folder_purposes

MOST_COMMITS = 1_500
"""How many of the newest commits say which files change together."""
LARGEST_COMMIT = 30
"""Most files of a commit that says anything about two of them."""
LEAST_FILES = 3
"""Fewest files of a slice."""
LEAST_GAIN = 1e-9
_FILE_LINKS = f"""
    WITH ended AS (
        SELECT source, target, count(*) AS links FROM edge
        WHERE relation IN ('calls', 'imports', 'tests', 'references') GROUP BY 1, 2
    )
    SELECT coalesce(near.path, substr(ended.source, {len(file_id("")) + 1})) AS first_path,
           coalesce(far.path, substr(ended.target, {len(file_id("")) + 1})) AS second_path,
           sum(links)
    FROM ended LEFT JOIN memory AS near ON near.id = ended.source
      LEFT JOIN memory AS far ON far.id = ended.target
    WHERE first_path <> second_path AND first_path <> '' AND second_path <> '' GROUP BY 1, 2
"""

Weights = Mapping[str, Mapping[str, float]]
"""Node -> neighbour -> weight of their link; both directions are in it."""


class Slice(Struct, frozen=True, kw_only=True):
    """Files that belong together."""

    folder: str
    """The folder of most of its files; empty: the root."""
    hub: str
    """The file with the strongest links within the slice."""
    files: tuple[str, ...]
    """Files of the slice: the hub first, then by the strength of their links."""
    purpose: str = ""
    """What a model says that the folder is for; empty if none was asked."""

    @property
    def name(self) -> str:
        """What it is called: its folder and its hub."""
        return f"{self.folder or '.'}: {self.hub}"


def slices_of_repository(
    connection: sqlite3.Connection, root: Path, *, uses_git: bool
) -> tuple[Slice, ...]:
    """Return the slices of the index, by its links and by the newest commits, with the purposes of
    their folders."""
    commits: Sequence[Sequence[str]] = ()
    if uses_git:
        past = commits_with_files(root, "HEAD", limit=MOST_COMMITS)
        commits = [commit.files for commit in past]
    slices = slices_of(connection, commits)
    purposes = folder_purposes(connection, {slice_.folder for slice_ in slices})
    described: list[Slice] = []
    for slice_ in slices:
        described.append(replace(slice_, purpose=purposes.get(slice_.folder, "")))
    return tuple(described)


def slices_of(
    connection: sqlite3.Connection, commits: Iterable[Sequence[str]]
) -> tuple[Slice, ...]:
    """Return the slices of the index, the largest first.

    commits: the files of each past commit.
    """
    paths = {
        path for (path,) in connection.execute("SELECT path FROM file WHERE excluded = ''")
    }
    weights: dict[str, dict[str, float]] = defaultdict(dict)
    links: Counter[tuple[str, str]] = Counter()
    for first, second, count in connection.execute(_FILE_LINKS).fetchall():
        links[_pair(first, second)] += count
    together: dict[tuple[str, str], float] = defaultdict(float)
    for files in commits:
        _count_together(together, sorted(paths.intersection(files)))
    for first, second in sorted({*links, *together}):
        if first in paths and second in paths:
            pair = (first, second)
            weight = math.log1p(links[pair]) + together.get(pair, 0.0)
            weights[first][second] = weights[second][first] = weight
    slices: list[Slice] = []
    for group in group_nodes(weights):
        if len(group) >= LEAST_FILES:
            slices.append(_slice(group, weights))
    return tuple(sorted(slices, key=lambda slice_: (-len(slice_.files), slice_.name)))


def group_nodes(weights: Weights) -> list[frozenset[str]]:
    """Return the groups of a graph by the Louvain method, each node in one."""
    members: dict[str, frozenset[str]] = {node: frozenset([node]) for node in sorted(weights)}
    graph: Weights = weights
    while True:
        group_of = _move_nodes(graph)
        if len(set(group_of.values())) == len(graph):
            return [members[node] for node in sorted(graph)]
        grouped: dict[str, frozenset[str]] = {}
        for node, group in group_of.items():
            grouped[group] = grouped.get(group, frozenset()) | members[node]
        members = grouped
        graph = _joined(graph, group_of)


def _pair(first: str, second: str) -> tuple[str, str]:
    if first < second:
        return (first, second)
    return (second, first)


def _count_together(together: dict[tuple[str, str], float], files: Sequence[str]) -> None:
    """Count each two files of a commit; one of few files says more than one of many."""
    if not 1 < len(files) <= LARGEST_COMMIT:
        return
    weight = 1 / math.log1p(len(files))
    for place, first in enumerate(files):
        for second in files[place + 1 :]:
            together[first, second] += weight


def _move_nodes(graph: Weights) -> dict[str, str]:
    """Move each node to the neighbouring group that raises modularity most, until none moves;
    return the group of each node, by the name of one of its nodes."""
    group_of = {node: node for node in sorted(graph)}
    # A group of an earlier round holds links of its own, as a neighbour of itself.
    degree = {node: sum(neighbours.values()) for node, neighbours in graph.items()}
    total = sum(degree.values())
    group_degree = dict(degree)
    has_moved = total > 0
    while has_moved:
        has_moved = False
        for node, own_group in list(group_of.items()):
            to_group: dict[str, float] = defaultdict(float)
            for neighbour, weight in graph[node].items():
                if neighbour != node:
                    to_group[group_of[neighbour]] += weight
            group_degree[own_group] -= degree[node]
            best_group = own_group
            best_gain = to_group[own_group] - group_degree[own_group] * degree[node] / total
            for group in sorted(to_group):
                gain = to_group[group] - group_degree[group] * degree[node] / total
                if gain > best_gain + LEAST_GAIN:
                    best_group, best_gain = group, gain
            group_degree[best_group] += degree[node]
            if best_group != own_group:
                group_of[node] = best_group
                has_moved = True
    return group_of


def _joined(graph: Weights, group_of: Mapping[str, str]) -> Weights:
    """Return the graph of the groups; the links within one are a link to itself."""
    joined: dict[str, dict[str, float]] = {group: {} for group in group_of.values()}
    for node, neighbours in graph.items():
        group = joined[group_of[node]]
        for neighbour, weight in neighbours.items():
            neighbour_group = group_of[neighbour]
            group[neighbour_group] = group.get(neighbour_group, 0.0) + weight
    return joined


def _slice(group: frozenset[str], weights: Weights) -> Slice:
    inside: dict[str, float] = {}
    for path in group:
        inside[path] = sum(
            weight for linked, weight in weights[path].items() if linked in group
        )
    files = sorted(group, key=lambda path: (-inside[path], path))
    folders = Counter(dirname(path) for path in files)
    folder = min(folders, key=lambda name: (-folders[name], name))
    return Slice(folder=folder, hub=files[0], files=tuple(files))
