"""Groups of files: by links and by what changed together, the same every time."""

import random

from hypothesis import given
from hypothesis import strategies as st

from xscore.store.slices import group_nodes

Graph = dict[str, dict[str, float]]


def cliques(count: int, size: int, *, bridge: float = 0.1) -> Graph:
    """Return groups of nodes that all know each other, each linked weakly to the next."""
    graph: Graph = {f"{group}/{member}": {} for group in range(count) for member in range(size)}
    for node in graph:
        for neighbour in graph:
            if node != neighbour and node.partition("/")[0] == neighbour.partition("/")[0]:
                graph[node][neighbour] = 1.0
    for group in range(count - 1):
        graph[f"{group}/0"][f"{group + 1}/0"] = bridge
        graph[f"{group + 1}/0"][f"{group}/0"] = bridge
    return graph


def test_what_knows_each_other_is_one_group() -> None:
    """Weak links between groups do not join them, in whatever order the nodes come."""
    graph = cliques(5, 6)
    shuffled = list(graph)
    random.Random(3).shuffle(shuffled)
    for order in (list(graph), shuffled):
        groups = group_nodes({node: graph[node] for node in order})
        assert sorted(map(len, groups)) == [6] * 5
        assert all(len({node.partition("/")[0] for node in group}) == 1 for group in groups)


@given(
    st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12), st.floats(0.01, 9)), max_size=60)
)
def test_every_node_is_in_one_group(links: list[tuple[int, int, float]]) -> None:
    """Whatever the graph, also one without links."""
    graph: Graph = {str(node): {} for node in range(13)}
    for first, second, weight in links:
        if first != second:
            graph[str(first)][str(second)] = graph[str(second)][str(first)] = weight
    groups = group_nodes(graph)
    assert sorted(node for group in groups for node in group) == sorted(graph)
    assert group_nodes(graph) == groups
