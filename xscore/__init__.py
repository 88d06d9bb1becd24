"""A small model judges every memory of a repository against the task; one strong call gets exactly
what matters.

The names below are imported when they are first used: `import xscore` itself costs nothing.
"""

# Type checkers take it for true; importing `typing` would double the start.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from xscore.extensions.lists.interface import JudgeOptions, judge, judge_async, judge_stream
    from xscore.extensions.lists.results import JudgedItem, JudgedItems, ListReceipt
    from xscore.pipeline.build import Pipeline
    from xscore.pipeline.open_folder import OpenFolder
    from xscore.pipeline.open_folder import open_folder as open  # noqa: A004  a name of this module, as in `gzip.open`
    from xscore.platform.errors import XscoreError
    from xscore.platform.portal import Interrupted
    from xscore.records.receipt import Answer
    from xscore.records.turn import Scope, Turn
    from xscore.settings import Settings

__all__ = [
    "Answer",
    "Interrupted",
    "JudgeOptions",
    "JudgedItem",
    "JudgedItems",
    "ListReceipt",
    "OpenFolder",
    "Pipeline",
    "Scope",
    "Settings",
    "Turn",
    "XscoreError",
    "judge",
    "judge_async",
    "judge_stream",
    "open",
]

_HOMES = {
    "Answer": "xscore.records.receipt:Answer",
    "Interrupted": "xscore.platform.portal:Interrupted",
    "JudgeOptions": "xscore.extensions.lists.interface:JudgeOptions",
    "JudgedItem": "xscore.extensions.lists.results:JudgedItem",
    "JudgedItems": "xscore.extensions.lists.results:JudgedItems",
    "ListReceipt": "xscore.extensions.lists.results:ListReceipt",
    "OpenFolder": "xscore.pipeline.open_folder:OpenFolder",
    "Pipeline": "xscore.pipeline.build:Pipeline",
    "Scope": "xscore.records.turn:Scope",
    "Settings": "xscore.settings:Settings",
    "Turn": "xscore.records.turn:Turn",
    "XscoreError": "xscore.platform.errors:XscoreError",
    "judge": "xscore.extensions.lists.interface:judge",
    "judge_async": "xscore.extensions.lists.interface:judge_async",
    "judge_stream": "xscore.extensions.lists.interface:judge_stream",
    "open": "xscore.pipeline.open_folder:open_folder",
}
"""Name -> where it is, `module:name`."""


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'xscore' has no attribute {name!r}")
    from importlib import import_module  # the package names its parts without loading one

    module, _, own_name = _HOMES[name].partition(":")
    return getattr(import_module(module), own_name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
