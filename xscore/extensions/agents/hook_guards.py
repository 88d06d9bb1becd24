"""The shell lines that an agent runs around each tool call: they start xscore only where a failure
is on record, or where the message looks like one.

Starting Python takes 11 ms and more, a shell one: so `sh` walks up from its folder and tests for
the file of `store.failed_actions` (the same rule is `state_folder` and `tree_with_failures` there).
That file is in the user's own folder: no clone can bring it. Where nothing is to be done the
message is read all the same, because Codex takes a closed pipe for a failure. `sh -c` is named
since Codex runs hooks in the user's shell, which may be no POSIX one. Windows has no such shell,
and no such hooks. Trade-off: Codex and Gemini CLI report failures by the event of successes, so
each message is searched for words of an error; where one is found, xscore decides.
"""

import re
import shlex

from xscore.extensions.agents.tool_call import AFTER, BEFORE
from xscore.store.failed_actions import MARKER

_LOOK = (
    "cd -P . 2>/dev/null; d=${XDG_STATE_HOME:-$HOME/.local/state}/xscore/failures; p=$PWD;"
    f' while [ "$p" ] && ! [ -e "$d$p/{MARKER}" ]; do p=${{p%/*}}; done;'
)
"""Shell code that leaves in `p` the nearest folder with failures on record, or nothing."""
_WHERE_ON_RECORD = _LOOK + ' if [ "$p" ]; then exec {command}; fi; exec cat >/dev/null'
_UNREAD = _LOOK + ' if [ "$p" ]; then exec {command}; fi'
"""Shell code for Cursor, which may not close its end of the pipe."""
_WHERE_FAILED = (
    _LOOK
    + ' m=$(cat); if [ ! "$p" ]; then case $m in {pattern}) ;; *) {nothing}exit 0;; esac; fi;'
    ' printf %s "$m" | {command}'
)
_FAILED = {
    "codex": (
        "*rror*|*annot*|*ailed*|*not?found*|*o?such*|*raceback*|*fatal*|*FAIL*|*sage:*|*enied*"
        "|*nrecognized*|*nknown*|*nvalid*|*issing*"
    ),
    "gemini": "*Exit?Code:?[1-9]*|*error?:?{*",
}
"""Client -> what its message after a failed call contains, as a pattern of `case`. `?` stands for
spaces and quotes, which would have to be quoted twice."""
# It begins where none of its characters comes before, so that a long word is read once, and not
# from each of its letters.
_PROGRAM = r"(?<![\w./@+'-])(?P<program>(?:'[^']*'|[\w./@+-])+)"


def guarded_command(command: str, *, hook: str, client: str) -> str:
    """Return the line that runs a hook around a tool call only where it is needed; other hooks as
    they are."""
    if hook not in (BEFORE, AFTER):
        return command
    return f"sh -c {shlex.quote(_script(hook, client).replace('{command}', command))}"


def _script(hook: str, client: str) -> str:
    if hook == AFTER and client in _FAILED:
        nothing = 'echo "{}"; ' if client == "gemini" else ""
        return _WHERE_FAILED.replace("{pattern}", _FAILED[client]).replace("{nothing}", nothing)
    if client == "cursor":
        return _UNREAD
    if client == "gemini":
        return _WHERE_ON_RECORD.replace("exec cat", 'echo "{}"; exec cat')
    return _WHERE_ON_RECORD


def unguarded_command(line: str) -> str:
    """Return the command within a line of `guarded_command`; any other line as it is.

    When the lines change, this has to know those that were installed before, too.
    """
    try:
        words = shlex.split(line)
    except ValueError:  # an unclosed quote: not a line that we wrote
        return line
    if len(words) != 3 or words[:2] != ["sh", "-c"]:
        return line
    pattern = rf"{_PROGRAM} hook (?P<hook>[\w-]+) --client (?P<client>[\w-]+)"
    command = re.search(pattern, words[2])
    if command is None:
        return line
    script = _script(command["hook"], command["client"]).replace("{command}", command[0])
    return command[0] if words[2] == script else line
