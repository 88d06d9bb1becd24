"""The command `xscore`, also as `python -m xscore`."""

import gc
import os
import signal
import sys
from importlib import import_module
from types import ModuleType

INTERRUPTED = 130
"""Exit code after Ctrl-C; `errors.ExitCode` is not loaded yet."""
_HOOK = "xscore.extensions.agents.hook_run"


def run() -> None:
    """Run the command line.

    Garbage collection starts after its modules are loaded: that saves 7 % of loading them.
    """
    if sys.argv[1:2] == ["view"]:
        _start_with_allocator_of_c()
    gc.disable()
    # Nothing here needs the threads of numpy's linear algebra: starting them is a third of its
    # import.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    try:
        if sys.argv[1:2] == ["hook"]:
            message = _message_of_failed_call(sys.argv[2:])
            _load(_HOOK)
            # Few runs are a hook's.
            from xscore.extensions.agents.hook_run import end_if_installed

            end_if_installed(sys.argv[1:], message)
        _load("xscore.cli.main")
        from xscore.cli.main import run_command_line  # not before: it loads most of the modules

        run_command_line()
    except KeyboardInterrupt:  # before a command could report it, or once more while it did
        os._exit(INTERRUPTED)


def _start_with_allocator_of_c() -> None:
    """Start a server again with the C library's allocator, which can give memory back.

    Python's own keeps a megabyte as long as anything in it is used: after two pages of 17,600
    memories, 26 of its 44 MB were free and kept.
    """
    if sys.platform != "linux" or "PYTHONMALLOC" in os.environ or not sys.executable:
        return
    os.environ["PYTHONMALLOC"] = "malloc"
    try:
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])  # noqa: S606  this program
    except OSError:  # it runs as it is, and keeps some 30 MB more
        return


def _message_of_failed_call(arguments: list[str]) -> bytes:
    """Answer a hook around a tool call and end the process; but return the message of a call that
    failed, and nothing for other hooks."""
    match arguments:
        case ["pre-tool" | "post-tool" as event, "--client", client]:
            _load("xscore.extensions.agents.tool_gate")
            # Not `hook_run`, which takes ten times as long to load.
            from xscore.extensions.agents.tool_gate import answer_tool_hook_or_return_failure

            return answer_tool_hook_or_return_failure(event, client)
    return b""


def _load(name: str) -> None:
    """Load a module and all that it imports.

    A full disk may leave half of a compiled file, on which Python stumbles: then the sources are
    read instead. A hook that cannot be loaded even so ends quietly, since an agent takes any other
    end for a veto.
    """
    with _EndsAtInterrupt():
        try:
            _import(name)
        except (EOFError, ValueError, TypeError):  # what `marshal` raises
            sys.pycache_prefix = os.devnull
            sys.dont_write_bytecode = True
        else:
            return
        try:
            _import(name)
        except Exception:
            if sys.argv[1:2] == ["hook"]:
                os._exit(0)
            raise


def _import(name: str) -> None:
    if name == _HOOK:
        _load_msgspec()
        # `urllib.parse` needs it for a host in brackets only, `subprocess` for text in pipes only.
        _load_when_used("ipaddress")
        _load_when_used("locale")
    __import__(name)


def _load_msgspec() -> None:
    """Load msgspec, which nearly all modules need, without what a hook does not need of it.

    It looks into `typing_extensions` first for what `typing` has had since Python 3.11; with
    `inspect`, `ast` and `dis`, which that loads, it took 7 ms before each prompt. `uuid`, which it
    loads, asks `platform` for the name of the system and nothing else, which took 3 ms with its
    patterns. And no hook makes a JSON schema, for which it defines 30 classes of types.
    """
    unused = ("msgspec.inspect", "msgspec._json_schema")
    # An import of what is None here fails at once, and msgspec turns to `typing`.
    stands: dict[str, ModuleType | None] = {"typing_extensions": None}
    stands |= {name: ModuleType(name) for name in unused}
    vars(stands["msgspec._json_schema"]).update(schema=None, schema_components=None)
    if "uuid" not in sys.modules:
        stands["platform"] = ModuleType("platform")
        vars(stands["platform"])["system"] = lambda: os.uname().sysname
    absent = [name for name in stands if name not in sys.modules]
    if "msgspec" in sys.modules or "typing_extensions" not in absent:
        return
    for name in absent:
        sys.modules[name] = stands[name]  # type: ignore[assignment]  # documented, not in typeshed
    try:
        import msgspec  # nothing is loaded while it must not look there
    finally:
        for name in absent:
            del sys.modules[name]
    del msgspec.inspect  # who imports it gets the real one


def _load_when_used(name: str) -> None:
    """Have a module of Python's own loaded when something of it is first used.

    Not by `importlib.util.LazyLoader`: Python 3.11 asks a module in `sys.modules` for its spec at
    each `import`, which is a use to that loader.
    """
    if name in sys.modules:
        return
    stand_in = ModuleType(name)

    def load_and_look_up(attribute: str) -> object:
        if sys.modules.get(name) is stand_in:
            del sys.modules[name]
        loaded = import_module(name)
        # Whoever imported the stand-in keeps it.
        vars(stand_in).update(vars(loaded))
        return getattr(loaded, attribute)

    vars(stand_in)["__getattr__"] = load_and_look_up
    sys.modules[name] = stand_in


class _EndsAtInterrupt:
    """During an import Ctrl-C can become another error, or get lost: here it ends the process at
    once."""

    def __enter__(self) -> None:
        # A process that ignores it (`nohup`) goes on ignoring it.
        self.is_heard = signal.getsignal(signal.SIGINT) is signal.default_int_handler
        if self.is_heard:
            signal.signal(signal.SIGINT, lambda _signal, _frame: os._exit(INTERRUPTED))

    def __exit__(self, *_: object) -> None:
        if self.is_heard:
            signal.signal(signal.SIGINT, signal.default_int_handler)


if __name__ == "__main__":
    run()
