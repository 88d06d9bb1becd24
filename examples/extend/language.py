"""A language: files of recipes become memories, one for each `recipe NAME` block.

    [project.entry-points."xscore.languages"]
    recipes = "language:RECIPES"

Then `XSCORE_PLUGINS_ENABLED=recipes`. With a tree-sitter grammar, name it in `grammar` and its
query in `query`.
"""

from xscore.indexer.languages import FileShape, Language

RECIPES = Language(
    name="recipes",
    shape=FileShape.BLOCKS,
    claims=".recipe Recipefile",
    begins=r"(recipe)\s+(\S+)",
)
