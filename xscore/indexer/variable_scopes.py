"""The variables that a piece of code sees, and what each was last given at a place in it.

A variable has at each place what was last assigned above it, in code that the place is in.
Trade-off: the branches around are not looked at.
"""

from bisect import bisect_left
from collections.abc import Sequence

from xscore.indexer.chains import PARAMETER, STEP
from xscore.indexer.entities import Entity
from xscore.indexer.file_facts import FileFacts

SUPER = frozenset({"super", "base", "parent"})
"""Words for the object itself, as its bases have it."""
_LOOKED_BACK = 8
"""How many assignments to one name are tried to find one that is seen at a place."""
Assignments = dict[str, list[tuple[int, str]]]
"""Name of a variable -> where it was given something, and the chain of that."""


class VariableScope:
    """The variables of an entity, and those of the one around it."""

    def __init__(
        self,
        owner: str,
        bound: Assignments,
        outer: "VariableScope | None",
        closures: Sequence[tuple[int, int]] = (),
    ) -> None:
        """closures: bytes of all functions of the file, in order of their starts."""
        self.owner: str = owner
        self.bound: Assignments = bound
        self._outer = outer
        self._closures = closures
        self.suite: str = ""
        """The suite of tests whose functions it may call."""
        self.names: set[str] = set(bound)
        if outer is not None:
            self.names |= outer.names

    def last(self, name: str, at: int) -> tuple[int, str] | None:
        """Return what a variable was last given before a byte, and where; None if it is none of
        these."""
        assigned = self.bound.get(name)
        if assigned is None:
            if self._outer is None:
                return None
            return self._outer.last(name, at)
        above = bisect_left(assigned, (at + 1, ""))
        for place, chain in reversed(assigned[max(0, above - _LOOKED_BACK) : above]):
            if self._is_seen(place, at):
                return place, chain
        if above:
            return assigned[above - 1]
        return None

    def _is_seen(self, place: int, at: int) -> bool:
        """Whether no function between ends before a byte that a place is inside of."""
        index = bisect_left(self._closures, (place + 1, 0))
        for start, end in reversed(self._closures[max(0, index - 2 * _LOOKED_BACK) : index]):
            if start <= place < end:
                return at < end
        return True


class VariableScopes:
    """Makes the scopes of one file."""

    def __init__(self, facts: FileFacts) -> None:
        self._facts = facts
        functions: list[tuple[int, int]] = []
        for definition in facts.syntax.definitions:
            if definition.kind == "function":
                functions.append((definition.start_byte, definition.end_byte))
        self.functions: list[tuple[int, int]] = sorted([*facts.syntax.closures, *functions])
        """Bytes of all functions, in order of their starts."""
        self._closures = sorted([*self.functions, *facts.syntax.narrowed])
        words = facts.source.language.receivers
        self.own_names: frozenset[str] = frozenset(words) - SUPER - {"super()"}
        """Words for the object itself."""

    def scope_of(
        self, entity: Entity, owner: str, outer: VariableScope | None = None
    ) -> VariableScope:
        """Return the variables that the code of an entity sees."""
        d = entity.definition
        holes = [(m.definition.start_byte, m.definition.end_byte) for m in entity.members]
        variables = self._variables(d.start_byte, d.end_byte, holes)
        scope = VariableScope(owner, variables, outer, self._closures)
        if d.kind == "suite":
            scope.suite = entity.name
        elif outer is not None and entity.parent is not None:
            scope.suite = entity.parent.name
        return scope

    def scope_between(self, start: int, end: int) -> VariableScope:
        """Return the variables that module-level code between two bytes gives values to."""
        return VariableScope("", self._variables(start, end, ()), None, self._closures)

    def _variables(self, start: int, end: int, holes: Sequence[tuple[int, int]]) -> Assignments:
        bound: Assignments = {}
        variables = self._facts.outside(holes, self._facts.syntax.variables, start, end)
        for at, name, stated in variables:
            if stated == PARAMETER and name in self.own_names:
                continue
            chain = self._of_parameter(name) if stated == PARAMETER else stated
            assigned = bound.setdefault(name, [])
            if not assigned or assigned[-1][0] != at:
                assigned.append((at, chain))
            elif not assigned[-1][1]:  # a stated type sorts before a value
                assigned[-1] = (at, chain)
        return bound

    def _of_parameter(self, name: str) -> str:
        """Return what a parameter without a type is: in a test, what the fixture of its name
        gives."""
        if not self._facts.source.is_test:
            return ""
        return f"{name}{STEP}{PARAMETER}"
