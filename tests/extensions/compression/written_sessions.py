"""Sessions for the tests: made by hand, or drawn."""

from collections.abc import Sequence

from hypothesis import strategies

from xscore.extensions.compression.output_frames import frame_output
from xscore.extensions.compression.session_turns import (
    AgentSession,
    CallOutcome,
    LoggedCall,
    SessionTurn,
    Speaker,
)
from xscore.platform import tokens

WORDS = (
    "the parser drops an empty header because `read_lines` splits src/net/http_parser.py twice now"
    " we must not retry ABC-17 in v2.4.1 so fixed parseHeader and then the tests passed at 93.5"
).split()
COMMANDS = (
    "pytest -q tests/test_parser.py::test_empty",
    "cargo build --release",
    "npm run lint -- --fix src/index.ts",
    "make check",
    "grep -rn read_lines src",
)
OUTPUTS = (
    "ok\n",
    "\n".join(
        f"line {number} of a long listing in build/out_{number}.o" for number in range(40)
    ),
    "collecting\n" + "x" * 900 + "\nE   AssertionError: assert 3 == 4\n1 failed, 2 passed",
    "error[E0382]: borrow of moved value: `buf_reader`\n --> src/main.rs:12:5\nerror: aborting",
)


def shell(command: str, output: str, *, failed: bool) -> LoggedCall:
    """Return a call of a shell command."""
    return LoggedCall(
        tool="",
        subject=command,
        outcome=CallOutcome.FAILED if failed else CallOutcome.PASSED,
        frame=frame_output(output, failed=failed, allow_pii=False),
        answers_by_failing=command.startswith("grep"),
    )


def session_of(turns: Sequence[tuple[Speaker, str, tuple[LoggedCall, ...]]]) -> AgentSession:
    """Return a session of these turns."""
    numbered: list[SessionTurn] = []
    for number, (speaker, words, calls) in enumerate(turns, 1):
        size = tokens.size(words) + sum(tokens.size(*call.frame.lines) for call in calls)
        numbered.append(
            SessionTurn(
                number=number,
                speaker=speaker,
                words=words,
                calls=calls,
                tokens=tokens.estimate(size),
            )
        )
    return AgentSession(
        origin="codex",
        session="s",
        path="~/s.jsonl",
        turns=tuple(numbered),
        tokens=sum(turn.tokens for turn in numbered),
    )


def long_session(turns: int) -> AgentSession:
    """Return a session in which the user speaks every tenth turn, and every third fails."""
    written: list[tuple[Speaker, str, tuple[LoggedCall, ...]]] = []
    for number in range(turns):
        if number % 10 == 0:
            written.append((Speaker.USER, f"Now do step {number} in src/step_{number}.py.", ()))
            continue
        words = " ".join(WORDS[(number + place) % len(WORDS)] for place in range(60))
        command = f"{COMMANDS[number % len(COMMANDS)]} # {number}"
        failed = number % 3 == 0
        output = OUTPUTS[number % len(OUTPUTS)]
        call = shell(command, output, failed=failed)
        written.append((Speaker.AGENT, f"{words}. Done with call_{number}().", (call,)))
    return session_of(written)


@strategies.composite
def drawn_sessions(draw: strategies.DrawFn) -> AgentSession:
    """Draw a session of up to 24 turns."""
    phrases = strategies.lists(strategies.sampled_from(WORDS), min_size=1, max_size=40)
    texts = strategies.one_of(phrases.map(" ".join), strategies.text(min_size=1, max_size=60))
    calls = strategies.builds(
        shell,
        strategies.sampled_from(COMMANDS),
        strategies.sampled_from(OUTPUTS),
        failed=strategies.booleans(),
    )
    turns: list[tuple[Speaker, str, tuple[LoggedCall, ...]]] = []
    for _ in range(draw(strategies.integers(1, 24))):
        speaker = draw(strategies.sampled_from(Speaker))
        words = draw(texts).strip()
        calls_after: tuple[LoggedCall, ...] = ()
        if speaker is Speaker.AGENT:
            calls_after = tuple(draw(strategies.lists(calls, max_size=3)))
        if words or calls_after:
            turns.append((speaker, words, calls_after))
    return session_of(turns or [(Speaker.USER, "go", ())])
