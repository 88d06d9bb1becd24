"""What a file says about the objects that methods are called on: calls with the chain of their
object, and the chains of what functions give and of what classes hold.

A local variable is replaced here by what it was last given, so that a chain begins with what other
files can look up:

    :T              an object of the type T             @C      the object itself, in the class C
    mod:REF!x       x of the module REF                 ^C      the same, as its bases have it
    mod:REF!        the module REF                      x       a name of this file or package
    in:C!x          a member x of the class C, or a name of this file

The names in a type are looked up the same way (`stated_types`); what a variable was last given is
`variable_scopes`' business. `receiver_types` follows the chains; `links` knows the hints.
Trade-off: a chain says no more than its file does, so one that no other file completes is lost.
"""

from collections.abc import Iterable, Sequence
from functools import cached_property

from xscore.indexer.chains import (
    ALIKE_MARK,
    ALTERNATIVE,
    CALL_MARK,
    DECLARED,
    EXTENDED,
    EXTENDS,
    MAX_CHAIN_CHARS,
    MODULE_MARK,
    NARROWED,
    OTHER_BUILD,
    STEP,
    TYPE_MARK,
    UNKNOWN,
    class_named_like,
)
from xscore.indexer.entities import Entity
from xscore.indexer.file_facts import FileFacts, within
from xscore.indexer.go_builds import is_usual_build
from xscore.indexer.languages import names_in
from xscore.indexer.stated_types import FOREIGN_TYPES, MAX_FACTS, StatedTypes
from xscore.indexer.syntax import NameUse
from xscore.indexer.variable_scopes import SUPER, VariableScope, VariableScopes
from xscore.store.written_rows import COUNT_MARK

MAX_USES = 120
"""Most calls with distinct objects kept of one entity."""
MAX_GIVEN = 8
"""Most variables given to each other that are followed."""
MAX_RETURNED = 3
"""Most distinct values kept of those that a function returns."""


class Receivers:
    """Chains and types of one file."""

    def __init__(self, facts: FileFacts) -> None:
        self._facts = facts
        self._language = facts.source.language
        self.types: StatedTypes = StatedTypes(facts)
        self.scopes: VariableScopes = VariableScopes(facts)
        self._variable_names = {name for _, name, _ in facts.syntax.variables}
        self._library = names_in(self._language.library)
        self._own = self.scopes.own_names
        self._super = {name.rstrip("()") for name in self._language.receivers}

    def uses(
        self, scope: VariableScope, start: int, end: int, holes: Sequence[tuple[int, int]] = ()
    ) -> list[NameUse]:
        """Return the calls between two bytes. holes: spans to leave out."""
        uses: dict[NameUse, None] = {}
        seen = set[tuple[str, int, int]]()
        for at, chain, count in self._facts.outside(
            holes, self._facts.syntax.chains, start, end
        ):
            head = chain.partition(STEP)[0]
            bound = None
            if head in scope.names:
                bound = scope.last(head, at)
            key = chain, count, -1 if bound is None else bound[0]
            if key in seen or len(uses) >= MAX_USES:
                continue
            seen.add(key)
            use = self._use(chain, at, scope, bound)
            if use is not None:
                name, hint = use
                if count >= 0 and self._language.has_overloads:
                    hint = f"{hint}{COUNT_MARK}{count}"
                uses[NameUse(name, hint)] = None
        return list(uses)

    def _use(
        self, chain: str, at: int, scope: VariableScope, bound: tuple[int, str] | None
    ) -> tuple[str, str] | None:
        *held, name = chain.split(STEP)
        if not held:
            return self._bare_use(name, scope, bound)
        head = held[0]
        is_own = len(held) == 1 and head in self._language.receivers and scope.owner
        if is_own or "::" in name:
            return self._facts.named_use(f"{head}.{name}", scope.owner)
        # If not a variable of this scope, then of the module.
        is_variable = bound is not None or head in self._variable_names
        if not is_variable and self._is_plain(held, scope):
            return self._facts.named_use(
                ".".join((*held, name)), scope.owner, is_path="::" in chain
            )
        expression = self.expand(STEP.join(held), at, scope)
        if not expression:
            return self._facts.named_use(f"?.{name}", scope.owner, is_path=False)
        if self._is_foreign(expression, name):
            return None
        return name, f"at:{expression}"

    def _is_foreign(self, expression: str, name: str) -> bool:
        """Whether a method is called on a type of the language, and is none of this repository."""
        if expression[0] != TYPE_MARK or expression[1:].partition("<")[0] not in FOREIGN_TYPES:
            return False
        return not self._language.has_extension_methods or name in self._library

    def _bare_use(
        self, name: str, scope: VariableScope, bound: tuple[int, str] | None
    ) -> tuple[str, str] | None:
        """Return the use of a name that is called without an object."""
        if name == "super":  # what the constructor of the base is
            if not scope.owner:
                return None
            return (name, f"at:^{scope.owner}")
        if scope.suite and name in self._facts.suite_names and name not in self._facts.imported:
            return name, f"in:{scope.suite}"
        if bound is not None and not self._language.has_overloads:
            return self._held_function(bound, scope)
        if name == "?":
            return None
        return self._without_object(name, scope)

    def _held_function(
        self, bound: tuple[int, str], scope: VariableScope
    ) -> tuple[str, str] | None:
        """Return the function that a variable was given: `const { open } = store`."""
        at, chain = bound
        begins, _, name = self.expand(chain, at - 1, scope).rpartition(STEP)
        if begins and name.isidentifier():
            return (name, f"at:{begins}")
        return None

    def _without_object(self, name: str, scope: VariableScope) -> tuple[str, str] | None:
        if name.startswith(TYPE_MARK):
            return name[1:].rpartition(".")[2], f"new:{scope.owner}"
        has_inner = (
            self._language.has_implicit_receiver or self._language.module_separator == "::"
        )
        is_own = has_inner and scope.owner and "::" not in name
        if is_own and name.rstrip("?!").isidentifier() and name not in self._facts.imported:
            return name, f"in:{scope.owner}"
        return self._facts.named_use(name.replace("::", "."), scope.owner)

    def _is_plain(self, held: Sequence[str], scope: VariableScope) -> bool:
        """Whether the hints of `links` say all of an object: an imported name, or one name that is
        not the class's."""
        head = held[0]
        if head in self._facts.imported:
            if any(step[:1] in "([" for step in held):
                return False
            has_name = self._facts.imported[head].name not in {"", "default", "*"}
            return len(held) == 1 or not has_name
        may_be_own = self._language.has_implicit_receiver and scope.owner
        return len(held) == 1 and head != "?" and not may_be_own

    def expand(self, chain: str, at: int, scope: VariableScope, depth: int = 0) -> str:
        """Return a chain that begins with what other files can look up; empty if nothing is
        known about it."""
        if not chain or depth > MAX_GIVEN:
            return ""
        head, *steps = chain.split(STEP)
        if steps and steps[0].startswith(NARROWED):
            return self._narrowed(head, steps, at, scope, depth + 1)
        bound = scope.last(head, at)
        if bound is not None:
            # At the byte before: `store = store.reopened()` means what it was before.
            begins = self.expand(bound[1], bound[0] - 1, scope, depth + 1) or self._alike(head)
        elif head.startswith(TYPE_MARK):
            stated = self.types.type_of(head[1:], at)
            begins = TYPE_MARK + stated if stated else ""
        elif head.startswith(MODULE_MARK):
            place = self._facts.reference(head[1:])
            begins = f"mod:{place}!" if place else ""
        else:
            return self._of_name(head, steps, scope)
        return _joined(begins, steps) if begins else ""

    def _narrowed(
        self, head: str, steps: list[str], at: int, scope: VariableScope, depth: int
    ) -> str:
        """Return the chain of a value of which a function tells the type, if what that returns says
        so."""
        before = self.expand(head, at, scope, depth)
        guard = self.expand(steps[0][len(NARROWED) :], at, scope, depth)
        if guard and STEP not in guard:
            return _joined(before or UNKNOWN, [NARROWED + guard, *steps[1:]])
        if before:
            return _joined(before, steps[1:])
        return ""

    def _alike(self, name: str) -> str:
        """Return the class that a variable may be named after, where no type is ever stated;
        may be empty."""
        class_name = class_named_like(name) if self._language.name == "ruby" else ""
        if not class_name:
            return ""
        return ALIKE_MARK + class_name

    def _of_name(self, head: str, steps: list[str], scope: VariableScope) -> str:
        first, *rest = head.split("::")
        is_super = head in SUPER and head in self._super
        if first in self._own:
            steps = [*rest, *steps]
        elif is_super and steps and steps[0].startswith(CALL_MARK):
            steps = steps[1:]
        elif head[0] in "@$":  # a variable of the object, in Ruby
            steps = [head, *steps]
        elif not is_super:
            is_name = head[0].isalpha() or head[0] == "_"
            if not is_name:
                return ""
            return self._looked_up(head, steps, scope)
        if not scope.owner:
            return ""
        return _joined(f"{'^' if is_super else '@'}{scope.owner}", steps)

    def _looked_up(self, head: str, steps: list[str], scope: VariableScope) -> str:
        if "::" in head and self._language.module_separator == "::":
            name, hint = self._facts.path_of(head.split("::"))
            if hint.startswith("typed:"):
                return _joined(hint.partition(":")[2], [name, *steps])
            return _joined(f"{hint}!{name}", steps)
        head = head.replace("::", ".")
        if head in self._facts.imported:
            return self._of_imported(head, steps)
        is_own = self._language.has_implicit_receiver and scope.owner
        return _joined(f"in:{scope.owner}!{head}" if is_own else head, steps)

    def _of_imported(self, head: str, steps: list[str]) -> str:
        imported = self._facts.imported[head]
        separator = self._language.module_separator
        place = self._facts.reference(imported.module)
        if not place:
            return ""
        if imported.name not in {"", "default", "*"}:
            return _joined(f"mod:{place}!{imported.name}", steps)
        if not imported.alias and separator == ".":
            # `import a.b` is used as `a.b.open`: the parts of the module are not steps.
            module = imported.module.split(".")
            if [head, *steps][: len(module)] == module:
                return _joined(f"mod:{place}!", steps[len(module) - 1 :])
        if separator == "/" and imported.alias:
            return _joined(f"mod:{place}#default!{head}", steps)
        return _joined(f"mod:{place}!", steps)

    def result_of(self, entity: Entity, scope: VariableScope) -> str:
        """Return what a function gives, by its declaration or by what it returns; alternatives are
        apart by blanks."""
        d = entity.definition
        syntax = self._facts.syntax
        stated = within(syntax.results, d.inner_start_byte, d.body_byte)
        if stated:
            result = self.types.type_of(stated[0][1].lstrip(": "), d.body_byte)
            return TYPE_MARK + result if result else ""
        returned = within(syntax.returned, d.body_byte, d.end_byte)
        if returned:
            inner = within(self.scopes.functions, d.body_byte, d.end_byte)
        else:
            inner = ()
        values: dict[str, None] = {}
        for at, chain in returned:
            # What a function inside it returns is not what it returns.
            if not any(start <= at < end for start, end in inner):
                values[self.expand(chain, at, scope)] = None
        values.pop("", None)
        return ALTERNATIVE.join(list(values)[:MAX_RETURNED])

    def members_of(
        self, entity: Entity, scope: VariableScope, methods: Iterable[VariableScope]
    ) -> dict[str, str]:
        """Return the types of a class's fields, and `name()` with the result of each method that it
        only declares."""
        d = entity.definition
        members: dict[str, str] = {}
        for name, assigned in scope.bound.items():
            if name[0] == ".":
                self._add(members, name, assigned, scope)
        for method in methods:
            for name, assigned in method.bound.items():
                if name.partition(".")[0] in self._own or name[:1] == "@":
                    self._add(members, name, assigned, method)
        holes = [(m.definition.start_byte, m.definition.end_byte) for m in entity.members]
        declared = self._facts.outside(
            holes, self._facts.syntax.declared, d.start_byte, d.end_byte
        )
        for at, name, written in declared:
            result = self.types.type_of(written.lstrip(": "), at)
            stated = TYPE_MARK + result if result else ""
            members[name + DECLARED] = members.get(name + DECLARED) or stated
        if d.kind == "extension":
            members[EXTENDED] = f":{entity.qualifier}"
        return dict(list(members.items())[:MAX_FACTS])

    def _add(
        self,
        members: dict[str, str],
        name: str,
        assigned: Sequence[tuple[int, str]],
        scope: VariableScope,
    ) -> None:
        field = (name.partition(".")[2] or name).lstrip("#")
        for at, chain in assigned:
            value = self.expand(chain, at, scope)
            if not value or "." in field:
                continue
            if field.endswith(EXTENDS) and field in members:
                members[field] += ALTERNATIVE + value
            members.setdefault(field, value)

    @cached_property
    def _is_usual(self) -> bool:
        """Whether the file is in a usual build."""
        source = self._facts.source
        return not self._language.has_folder_modules or is_usual_build(source.path, source.text)

    def variables_between(self, start: int, end: int) -> dict[str, str]:
        """Return the types of these variables."""
        scope = self.scopes.scope_between(start, end)
        variables: dict[str, str] = {}
        for name, assigned in scope.bound.items():
            if name.isidentifier():
                stored_name = name if self._is_usual else name + OTHER_BUILD
                self._add(variables, stored_name, assigned, scope)
        return dict(list(variables.items())[:MAX_FACTS])


def _joined(begins: str, steps: Sequence[str]) -> str:
    chain = STEP.join((begins, *steps))
    if len(chain) > MAX_CHAIN_CHARS:
        return ""
    return chain
