"""`xscore batch`: lists of questions judged without anyone waiting. One file for each of its commands.

`xscore cache`: the judgments that were paid for. One file for each of its commands.

Every command's name, file and one line, so that `xscore --help` need not import any of them.

It holds no behaviour. The price is that a command's one line stands here and not beside the command.

A group of commands that imports one when it is called, and none to list them.

`xscore memory`: what is remembered beside code, in all layers. One file for each of its commands.
"""

from collections.abc import Mapping
from importlib import import_module
from typing import Any, NamedTuple

import click


class CommandEntry(NamedTuple):
    """Where a command lives and what the listing says of it."""

    module: str
    attribute: str
    line: str


COMMANDS: dict[str, CommandEntry] = {
    "ask": CommandEntry(
        "xscore.cli.ask", "ask", "Judge every memory against TASK, then answer once with what matters."
    ),
    "continue": CommandEntry("xscore.cli.ask", "continue_turn", "Finish a turn that was cut short."),
    "context": CommandEntry(
        "xscore.cli.ask", "context", "The chosen context alone, on stdout, for a model of your own."
    ),
    "index": CommandEntry("xscore.cli.repository", "index", "Bring the memories of a repository up to date."),
    "explain": CommandEntry(
        "xscore.cli.explain", "explain", "Why a memory was or was not chosen, in numbers and words."
    ),
    "estimate": CommandEntry(
        "xscore.cli.explain", "estimate", "Calls, tokens, dollars and minutes of TASK, nothing sent."
    ),
    "eval": CommandEntry(
        "xscore.extensions.evaluation.commands",
        "evaluate",
        "How well the judge finds what it should: recall, precision, dollars.",
    ),
    "batch": CommandEntry(
        "xscore.cli.catalogue", "batch", "Lists of questions, judged offline: by Batch API, or live."
    ),
    "rescore": CommandEntry(
        "xscore.extensions.batch.submit_commands",
        "rescore_judgments",
        "Bring judgments up to date after edits: only what is missing.",
    ),
    "cache": CommandEntry(
        "xscore.cli.catalogue", "cache", "Judgments that were paid for: stats, prune, export, import."
    ),
    "turns": CommandEntry(
        "xscore.cli.history", "history_list", "Past turns, newest first: state, judge, kept, dollars, seconds."
    ),
    "turn": CommandEntry("xscore.cli.history", "history", "One past turn: show replays its receipt."),
    "report": CommandEntry(
        "xscore.cost_reports.commands", "report", "Dollars, tokens, time and coverage, in tables or a page; a gate."
    ),
    "status": CommandEntry("xscore.cli.repository", "status", "What the store of this repository holds."),
    "doctor": CommandEntry(
        "xscore.cli.repository", "doctor", "Check keys, hosts, store and settings; --probe makes one call."
    ),
    "memory": CommandEntry(
        "xscore.cli.catalogue", "memory", "What is remembered beside code: list, add, change, erase, learn."
    ),
    "decision": CommandEntry("xscore.cli.memory", "decision", "What was decided and why: add, list."),
    "failure": CommandEntry("xscore.cli.memory", "failure", "What went wrong and what mended it: add, resolve, list."),
    "session": CommandEntry(
        "xscore.cli.session", "session", "The working session of this branch: show, list, resume, close, fresh."
    ),
    "checkpoint": CommandEntry(
        "xscore.extensions.exchange.checkpoint_commands",
        "checkpoint",
        "Named snapshots of the session: save, load, list, delete.",
    ),
    "graph": CommandEntry(
        "xscore.cli.repository", "graph", "What a file depends on, what depends on it: related, deps, affected."
    ),
    "sessions": CommandEntry(
        "xscore.extensions.sessions.commands", "sessions", "Past sessions of coding agents: import, list, forget."
    ),
    "trust": CommandEntry("xscore.cli.store", "trust", "Accept a store made elsewhere, or set it aside and rebuild."),
    "encrypt": CommandEntry(
        "xscore.extensions.privacy.commands", "encrypt", "Encrypt the store of this repository, or your own."
    ),
    "decrypt": CommandEntry(
        "xscore.extensions.privacy.commands", "decrypt", "Write an encrypted store as a plain one again."
    ),
    "config": CommandEntry("xscore.cli.config", "config", "Show every effective setting and where it came from."),
    "completion": CommandEntry("xscore.cli.config", "completion", "Print the completion script of a shell."),
}

MEMORY_COMMANDS: dict[str, CommandEntry] = {
    "list": CommandEntry("xscore.cli.memory", "list_memories", "What is remembered beside code, newest first."),
    "show": CommandEntry("xscore.cli.memory", "show_memories", "All that is known of memories, by exact ID."),
    "add": CommandEntry("xscore.cli.memory", "add_memory", "Say something to be remembered."),
    "update": CommandEntry("xscore.cli.memory", "update_memory", "Change a memory; it keeps its id and history."),
    "export": CommandEntry(
        "xscore.extensions.exchange.commands", "export_memories", "Memories as lines of JSON, or a snapshot."
    ),
    "import": CommandEntry(
        "xscore.extensions.exchange.commands", "import_memories", "Read exported memories, or a snapshot, back in."
    ),
    "stats": CommandEntry(
        "xscore.cli.memory_audit", "memory_stats", "Rows and bytes of each layer against its caps, age and use."
    ),
    "delete": CommandEntry(
        "xscore.extensions.privacy.commands",
        "delete_memories",
        "Erase memories by ID for good, and prove it with --verify.",
    ),
    "wipe": CommandEntry(
        "xscore.extensions.privacy.commands", "wipe_memories", "Erase all memories of a layer, scope or kind."
    ),
    "consolidate": CommandEntry(
        "xscore.extensions.learning.commands", "consolidate", "Merge, promote, fade, archive; --dry-run says why."
    ),
    "feedback": CommandEntry(
        "xscore.extensions.learning.commands", "record_feedback", "Say that a memory is right, wrong, or overridden."
    ),
    "suggest": CommandEntry(
        "xscore.extensions.learning.commands",
        "suggest_preferences",
        "What you usually do and this project says nothing of.",
    ),
    "mute": CommandEntry("xscore.extensions.learning.commands", "mute_key", "Suggest nothing of a key any more."),
    "audit": CommandEntry(
        "xscore.cli.memory_audit",
        "audit_memories",
        "Name duplicates, stale memories, suspected secrets, layers over caps.",
    ),
}
"""Of `xscore memory`."""

BATCH_COMMANDS: dict[str, CommandEntry] = {
    "submit": CommandEntry(
        "xscore.extensions.batch.submit_commands", "submit_batch", "Plan a list, agree to its price, send it."
    ),
    "run": CommandEntry(
        "xscore.extensions.batch.submit_commands",
        "run_batch",
        "Judge a list by live calls, with checkpoints; --out writes the ranks.",
    ),
    "status": CommandEntry(
        "xscore.extensions.batch.commands", "show_job_status", "How far a job is: judged, at the vendor, dollars."
    ),
    "wait": CommandEntry("xscore.extensions.batch.commands", "wait_for_jobs", "Collect until all is in."),
    "collect": CommandEntry(
        "xscore.extensions.batch.commands", "collect_jobs", "Fetch what has come back, send what is next."
    ),
    "cancel": CommandEntry(
        "xscore.extensions.batch.commands", "cancel_job", "Send nothing more of a job; keep what was run."
    ),
    "list": CommandEntry(
        "xscore.extensions.batch.commands", "list_jobs", "Every job of this repository, newest first."
    ),
}
"""Of `xscore batch`."""

CACHE_COMMANDS: dict[str, CommandEntry] = {
    "stats": CommandEntry(
        "xscore.cli.store", "cache_stats_command", "What the cache holds, what of it is of use, what it spared."
    ),
    "prune": CommandEntry(
        "xscore.cli.store", "prune_cache", "Sweep judgments that nothing can reach; --dry-run says which."
    ),
    "export": CommandEntry(
        "xscore.extensions.exchange.commands",
        "export_judgments",
        "Judgments as one signed Parquet file, for another machine.",
    ),
    "import": CommandEntry(
        "xscore.extensions.exchange.commands", "import_judgments", "Take over what another machine of yours exported."
    ),
    "key": CommandEntry(
        "xscore.extensions.exchange.commands", "print_new_key", "Print a new key for machines that share their caches."
    ),
}
"""Of `xscore cache`."""


class LazyGroup(click.Group):
    """Commands by name, from a table of the catalogue."""

    def __init__(self, *arguments: Any, entries: Mapping[str, CommandEntry], **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.entries = entries

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Name the commands in the order of the table."""
        return list(self.entries)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one command."""
        entry = self.entries.get(cmd_name)
        if entry is None:
            return None
        command = getattr(import_module(entry.module), entry.attribute)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands from the table, importing none."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.line) for name, entry in self.entries.items()])


@click.command(cls=LazyGroup, entries=BATCH_COMMANDS)
def batch() -> None:
    """Judge a list of questions against every memory: through a vendor's Batch API at half the price, or live."""


@click.command(cls=LazyGroup, entries=CACHE_COMMANDS)
def cache() -> None:
    """Look at the judgments that were paid for, sweep them, and move them between machines."""


@click.command(cls=LazyGroup, entries=MEMORY_COMMANDS)
def memory() -> None:
    """Look at, add, change and erase what is remembered of this repository, its sessions and you."""
