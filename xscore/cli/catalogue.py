"""Every command's name, file and one line, so that `xscore --help` need not import any of them.

It holds no behaviour. The price is that a command's one line stands here and not beside the command.
"""

from typing import NamedTuple


class Entry(NamedTuple):
    """Where a command lives and what the listing says of it."""

    module: str
    attribute: str
    line: str


COMMANDS: dict[str, Entry] = {
    "ask": Entry("xscore.cli.ask", "ask", "Judge every memory against TASK, then answer once with what matters."),
    "continue": Entry("xscore.cli.continue_turn", "continue_turn", "Finish a turn that was cut short."),
    "context": Entry("xscore.cli.context", "context", "The chosen context alone, on stdout, for a model of your own."),
    "index": Entry("xscore.cli.index", "index", "Bring the memories of a repository up to date."),
    "explain": Entry("xscore.cli.explain", "explain", "Why a memory was or was not chosen, in numbers and words."),
    "estimate": Entry("xscore.cli.estimate", "estimate", "Calls, tokens, dollars and minutes of TASK, nothing sent."),
    "eval": Entry(
        "xscore.cli.evaluate", "evaluate", "How well the judge finds what it should: recall, precision, dollars."
    ),
    "batch": Entry("xscore.cli.batch", "batch", "Lists of questions, judged offline: by Batch API, or live."),
    "rescore": Entry("xscore.cli.rescore", "rescore", "Bring judgments up to date after edits: only what is missing."),
    "cache": Entry("xscore.cli.cache", "cache", "Judgments that were paid for: stats, prune, export, import."),
    "turns": Entry("xscore.cli.turns", "turns", "Past turns, newest first: state, judge, kept, dollars, seconds."),
    "turn": Entry("xscore.cli.turn", "turn", "One past turn: show replays its receipt."),
    "report": Entry("xscore.cli.report", "report", "Dollars, tokens, time and coverage, in tables or a page; a gate."),
    "status": Entry("xscore.cli.status", "status", "What the store of this repository holds."),
    "doctor": Entry("xscore.cli.doctor", "doctor", "Check keys, hosts, store and settings; --probe makes one call."),
    "memory": Entry("xscore.cli.memory", "memory", "What is remembered beside code: list, add, change, erase, learn."),
    "decision": Entry("xscore.cli.decision", "decision", "What was decided and why: add, list."),
    "failure": Entry("xscore.cli.failure", "failure", "What went wrong and what mended it: add, resolve, list."),
    "session": Entry(
        "xscore.cli.session", "session", "The working session of this branch: show, list, resume, close, fresh."
    ),
    "checkpoint": Entry(
        "xscore.cli.checkpoint", "checkpoint", "Named snapshots of the session: save, load, list, delete."
    ),
    "graph": Entry("xscore.cli.graph", "graph", "What a file depends on, what depends on it: related, deps, affected."),
    "sessions": Entry("xscore.cli.sessions", "sessions", "Past sessions of coding agents: import, list, forget."),
    "trust": Entry("xscore.cli.trust", "trust", "Accept a store made elsewhere, or set it aside and rebuild."),
    "encrypt": Entry("xscore.cli.encrypt", "encrypt", "Encrypt the store of this repository, or your own."),
    "decrypt": Entry("xscore.cli.encrypt", "decrypt", "Write an encrypted store as a plain one again."),
    "config": Entry("xscore.cli.config", "config", "Show every effective setting and where it came from."),
    "completion": Entry("xscore.cli.completion", "completion", "Print the completion script of a shell."),
}

MEMORY_COMMANDS: dict[str, Entry] = {
    "list": Entry("xscore.cli.memory_list", "list_memories", "What is remembered beside code, newest first."),
    "show": Entry("xscore.cli.memory_show", "show", "All that is known of memories, by exact ID."),
    "add": Entry("xscore.cli.memory_add", "add", "Say something to be remembered."),
    "update": Entry("xscore.cli.memory_update", "update", "Change a memory; it keeps its id and history."),
    "export": Entry("xscore.cli.memory_export", "export", "Memories as lines of JSON, or a snapshot."),
    "import": Entry("xscore.cli.memory_import", "import_memories", "Read exported memories, or a snapshot, back in."),
    "stats": Entry("xscore.cli.memory_stats", "stats", "Rows and bytes of each layer against its caps, age and use."),
    "delete": Entry("xscore.cli.memory_delete", "delete", "Erase memories by ID for good, and prove it with --verify."),
    "wipe": Entry("xscore.cli.memory_wipe", "wipe", "Erase all memories of a layer, scope or kind."),
    "consolidate": Entry(
        "xscore.cli.memory_consolidate", "consolidate", "Merge, promote, fade, archive; --dry-run says why."
    ),
    "feedback": Entry("xscore.cli.memory_feedback", "feedback", "Say that a memory is right, wrong, or overridden."),
    "suggest": Entry("xscore.cli.memory_suggest", "suggest", "What you usually do and this project says nothing of."),
    "mute": Entry("xscore.cli.memory_mute", "mute", "Suggest nothing of a key any more."),
    "audit": Entry(
        "xscore.cli.memory_audit", "audit", "Name duplicates, stale memories, suspected secrets, layers over caps."
    ),
}
"""Of `xscore memory`."""

BATCH_COMMANDS: dict[str, Entry] = {
    "submit": Entry("xscore.cli.batch_submit", "submit", "Plan a list, agree to its price, send it."),
    "run": Entry(
        "xscore.cli.batch_run", "run", "Judge a list by live calls, with checkpoints; --out writes the ranks."
    ),
    "status": Entry("xscore.cli.batch_status", "status", "How far a job is: judged, at the vendor, dollars."),
    "wait": Entry("xscore.cli.batch_wait", "wait", "Collect until all is in."),
    "collect": Entry("xscore.cli.batch_collect", "collect", "Fetch what has come back, send what is next."),
    "cancel": Entry("xscore.cli.batch_cancel", "cancel", "Send nothing more of a job; keep what was run."),
    "list": Entry("xscore.cli.batch_list", "list_jobs", "Every job of this repository, newest first."),
}
"""Of `xscore batch`."""

CACHE_COMMANDS: dict[str, Entry] = {
    "stats": Entry("xscore.cli.cache_stats", "stats", "What the cache holds, what of it is of use, what it spared."),
    "prune": Entry("xscore.cli.cache_prune", "prune", "Sweep judgments that nothing can reach; --dry-run says which."),
    "export": Entry("xscore.cli.cache_export", "export", "Judgments as one signed Parquet file, for another machine."),
    "import": Entry("xscore.cli.cache_import", "import_file", "Take over what another machine of yours exported."),
    "key": Entry("xscore.cli.cache_key", "key", "Print a new key for machines that share their caches."),
}
"""Of `xscore cache`."""
