"""`xscore.open`: a folder opened for code without an event loop, in scripts and in notebooks.

Every method is that of `Pipeline`, run in one thread (`platform.portal`). Nothing is decided here.
Trade-off: one call at a time; async code, which may do more, uses `Pipeline`.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from functools import wraps
from pathlib import Path
from typing import Concatenate, Final, ParamSpec, Self, TypeVar, Unpack

from xscore.pipeline.build import Pipeline
from xscore.pipeline.notebook import notebook_observer
from xscore.pipeline.options import (
    JudgingOptions,
    check_options,
    load_with_options,
    require_path,
)
from xscore.platform.errors import UsageError
from xscore.platform.paths import find_root
from xscore.platform.portal import Portal
from xscore.records.events import Observer
from xscore.settings import LoadedSettings, Settings

P = ParamSpec("P")
Result = TypeVar("Result")


class OpenOptions(JudgingOptions, total=False):
    """Options of `open`."""

    model: str
    """The answering model, `provider:model`."""


def settings_with_options(path: Path | str, options: OpenOptions) -> LoadedSettings:
    """Read the settings for this folder as the command line does, with the options on top.

    Raises UsageError.
    """
    check_options(options, OpenOptions)
    require_path(path=path)
    return load_with_options(options, find_root(Path(path)))


def blocking(
    method: Callable[Concatenate[Pipeline, P], Awaitable[Result]],
) -> Callable[Concatenate["OpenFolder", P], Result]:
    """Return a blocking version of a method of `Pipeline`, with the same arguments and
    docstring."""

    @wraps(method)
    def wait(self: "OpenFolder", /, *args: P.args, **kwargs: P.kwargs) -> Result:
        return self._portal.call(method, self._pipeline, *args, **kwargs)

    return wait


def blocking_iterator(
    method: Callable[Concatenate[Pipeline, P], AsyncGenerator[Result, None]],
) -> Callable[Concatenate["OpenFolder", P], Iterator[Result]]:
    """Return a generator of `Pipeline` as one for a `for` loop; leaving the loop waits for its
    end."""

    @wraps(method)
    def read(self: "OpenFolder", /, *args: P.args, **kwargs: P.kwargs) -> Iterator[Result]:
        # Its frame keeps this folder open.
        yield from self._portal.iterate(method(self._pipeline, *args, **kwargs))

    return read


class OpenFolder:
    """A repository or folder with its memories, opened; made by `xscore.open`. Close it, or use it
    in a `with`.

    It may be used from any thread, also where an event loop runs; threads wait for each other.
    Ctrl-C ends a call with `Interrupted`, whose `receipt` says what was judged and paid for until
    then.
    """

    def __init__(
        self, path: Path | str, settings: Settings | LoadedSettings, observer: Observer | None
    ) -> None:
        self._portal = Portal()
        self._opened = AsyncExitStack()
        opening = Pipeline.open(path, settings, observer=observer or notebook_observer())
        try:
            self._pipeline = self._portal.call(self._opened.enter_async_context, opening)
        except BaseException:
            self._portal.close()
            raise

    def __del__(self) -> None:
        # It was never closed: its loop goes before what is open in it.
        if hasattr(self, "_portal"):
            self._portal.abandon()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the store and end the thread. Closing twice does nothing."""
        self._portal.close(self._opened.aclose)

    ask: Final = blocking(Pipeline.ask)
    context: Final = blocking(Pipeline.context)
    stream: Final = blocking_iterator(Pipeline.stream)
    resume: Final = blocking(Pipeline.resume)
    remember: Final = blocking(Pipeline.remember)
    forget: Final = blocking(Pipeline.forget)
    estimate: Final = blocking(Pipeline.estimate)
    explain: Final = blocking(Pipeline.explain)
    index: Final = blocking(Pipeline.index)
    status: Final = blocking(Pipeline.status)


def open_folder(
    path: Path | str = ".",
    settings: Settings | LoadedSettings | None = None,
    *,
    observer: Observer | None = None,
    **options: Unpack[OpenOptions],
) -> OpenFolder:
    """Open the repository or folder around `path`; make its store if it is missing.

    settings: None reads the user's and the repository's files and the environment, as the
        command line does, with the options on top. Raises what `Pipeline.open` raises, and
        UsageError for options in addition to settings.
    """
    require_path(path=path)
    if settings is not None and options:
        raise UsageError(
            "settings and options are both given", hint="Put the options into the settings."
        )
    return OpenFolder(
        path, settings_with_options(path, options) if settings is None else settings, observer
    )
