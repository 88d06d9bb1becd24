"""How the job ends, once everything is written, kept and told: by the command, then by the gate.

Without a key a run can judge nothing that has changed, so what it leaves unjudged, and a gate that
this fails, are reported and do not fail the job. Trade-off: a stranger's pull request is held to
the baseline only when it is run again with a key.
"""

import sys

from ci.runner import annotate, given, is_check, is_true, set_output

PARTIAL = 1
NOTHING_JUDGED = 3
BUDGET = 4
GATE = 5
WORDS = {
    2: "the command or a setting is wrong",
    NOTHING_JUDGED: "no usable model, or nothing was judged",
    BUDGET: "the budget came first; what was judged is kept in the store",
    6: "the store is refused or damaged",
    7: "judged, but the answering call failed",
    130: "interrupted; what was paid for is kept in the store",
}


def main() -> int:
    """Give the output `exit-code` and end with it."""
    ran = int(given("EXIT_CODE"))
    if is_check() and ran == PARTIAL:
        # Only `--exit-code` makes a check end so.
        annotate("error", "xscore: the change lacks something", "The summary lists it.")
        set_output("exit-code", str(ran))
        return ran
    code = conclude(ran, int(given("GATE") or 0), lacks_key=is_true("LACKS_KEY"))
    set_output("exit-code", str(code))
    return code


def conclude(ran: int, gate: int, *, lacks_key: bool) -> int:
    """Return what the job ends with, and say why where that is not 0 or something was let pass."""
    if lets_pass(ran, lacks_key=lacks_key):
        annotate("notice", "xscore: no key", _without_key(ran, gate))
        return 0
    if ran not in (0, PARTIAL):
        annotate(
            "error", "xscore", f"exit code {ran}: {WORDS.get(ran, 'the log above says why')}"
        )
        return ran
    if ran == PARTIAL:
        annotate(
            "warning",
            "xscore: not everything was judged",
            "Some candidates are unjudged; the summary says why.",
        )
    if gate:
        annotate(
            "error",
            "xscore: the report" if gate != GATE else "xscore: the check failed",
            _of_the_gate(gate),
        )
    return gate


def lets_pass(ran: int, *, lacks_key: bool) -> bool:
    """Whether what the command ended with, and a gate that fails, are told and not held against the
    run."""
    return lacks_key and ran in (PARTIAL, NOTHING_JUDGED)


def _without_key(ran: int, gate: int) -> str:
    what = (
        "Nothing is judged"
        if ran == NOTHING_JUDGED
        else "What the store does not hold is unjudged"
    )
    passed = " The check is not held against this run." if gate else ""
    return f"{what}, since no key is here (as in pull requests from forks).{passed}"


def _of_the_gate(gate: int) -> str:
    if gate == GATE:
        return (
            "A figure is worse than the baseline allows; each has its own annotation, the summary"
            " has them all."
        )
    return f"`xscore report` ended with {gate}; the log above says why."


if __name__ == "__main__":
    sys.exit(main())
