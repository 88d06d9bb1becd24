"""What names alone say in Ruby, where no type is ever stated.

A variable or an attribute of which nothing else is known is an object of the class that it is named
for, as `site` is one of `Site`. A method that is called without an object may be mixed in from a
module by code outside of the repository, or be added to a class of anyone else: the only one of its
name is meant. Trade-off: a variable that has the name of a class and holds something else leads to
that class.
"""

from xscore.indexer.chains import class_named_like
from xscore.indexer.extension_methods import ExtensionIndex
from xscore.indexer.languages import names_in
from xscore.records.memory import WITHIN, Kind
from xscore.store.link_rows import EntityRow

_MIXED_IN = frozenset({Kind.METHOD, Kind.TEST})


class RubyNameIndex(ExtensionIndex):
    """Finds classes and methods of Ruby by a name, and all that the other languages have."""

    def _alike(self, name: str, path: str) -> EntityRow | None:
        """Return the class that a variable is named for."""
        class_name = class_named_like(name) if self._is_ruby(path) else ""
        if not class_name:
            return None
        return self._class_named(class_name, path)

    def _reads(self, class_row: EntityRow, name: str) -> bool:
        """Whether a class reads a variable of its object under a name, as `attr_reader` has it."""
        if not self._is_ruby(class_row.path):
            return False
        return any(
            name in self._mentions(this.path).types.get(this.id, {})
            for this in self._with_bases(class_row)
        )

    def _mixed_in(self, name: str, owner: str, path: str) -> EntityRow | None:
        """Return the only method of a name that is called without an object in a class that does
        not have it."""
        # A name of one word may be a variable that was not seen.
        if not self._is_ruby(path) or not owner or "_" not in name.strip("_"):
            return None
        if name in names_in(self._row(path).library):
            return None
        method = self._unique(name, path, _MIXED_IN, dotted=True)
        if method is not None and WITHIN not in method.entity:
            return method
        return None
