"""Every command's name, place and one line, so that `xscore --help` imports none of them.

It holds no behavior but finding a command. Trade-off: a command's one line stands here and not beside the command.
"""

from collections.abc import Mapping
from importlib import import_module
from typing import Any, NamedTuple

import click


class CommandEntry(NamedTuple):
    """Where a command lives and what the listing says of it."""

    place: str
    """`module:attribute` inside xscore; empty: a group, whose commands are in `GROUPS`."""
    line: str


SECTIONS: dict[str, dict[str, CommandEntry]] = {
    "Ask": {
        "ask": CommandEntry("cli.ask:ask", "Judge every memory against TASK, then answer once with what matters."),
        "context": CommandEntry("cli.ask:context", "Print the chosen context alone, for a model of your own."),
        "continue": CommandEntry("cli.ask:continue_turn", "Finish a turn that was cut short."),
        "explain": CommandEntry("cli.explain:explain", "Say why a memory was or was not chosen."),
        "estimate": CommandEntry("cli.explain:estimate", "Count calls, tokens, dollars and minutes; send nothing."),
    },
    "Remember": {
        "memory": CommandEntry("", "Decisions, failures, preferences: add, list, change, erase."),
        "session": CommandEntry("", "The working session of this branch, and its checkpoints."),
        "history": CommandEntry("", "Past turns: list, show, delete."),
    },
    "Measure": {
        "report": CommandEntry("cost_reports.commands:report", "Dollars, tokens, time and coverage; a gate for CI."),
        "eval": CommandEntry("extensions.evaluation.commands:evaluate", "Measure what the judge finds, with gold."),
        "batch": CommandEntry("", "Lists of questions, judged live or by a vendor's Batch API."),
    },
    "Set up": {
        "index": CommandEntry("cli.repository:index", "Bring the memories of a repository up to date."),
        "status": CommandEntry("cli.repository:status", "Show what the store of this repository holds."),
        "doctor": CommandEntry("cli.repository:doctor", "Check keys, hosts, store and settings."),
        "graph": CommandEntry("cli.repository:graph", "What a file depends on, and what depends on it."),
        "config": CommandEntry("", "Effective settings and where they came from; shell completion."),
        "store": CommandEntry("", "Cached judgments, trust, encryption, repair."),
    },
}
COMMANDS: dict[str, CommandEntry] = {name: entry for section in SECTIONS.values() for name, entry in section.items()}

GROUPS: dict[str, tuple[str, dict[str, CommandEntry]]] = {
    "memory": (
        "Look at, add, change and erase what is remembered of this repository, its sessions and you.",
        {
            "list": CommandEntry("cli.memory:list_memories", "What is remembered beside code, newest first."),
            "show": CommandEntry("cli.memory:show_memories", "Everything known about memories, by exact ID."),
            "add": CommandEntry("cli.memory:add_memory", "Remember a decision, failure, preference or fact."),
            "update": CommandEntry("cli.memory:update_memory", "Change a memory; it keeps its ID and history."),
            "delete": CommandEntry("extensions.privacy.commands:delete_memories", "Erase memories by ID for good."),
            "wipe": CommandEntry(
                "extensions.privacy.commands:wipe_memories", "Erase a whole layer, scope, kind or imported session."
            ),
            "stats": CommandEntry("cli.memory:memory_stats", "Rows, bytes, age and use of each layer."),
            "audit": CommandEntry(
                "extensions.learning.commands:audit_memories", "Find duplicates, stale memories and secrets."
            ),
            "export": CommandEntry("extensions.exchange.commands:export_memories", "Write memories as lines of JSON."),
            "import": CommandEntry("extensions.exchange.commands:import_memories", "Read exported memories back in."),
            "import-sessions": CommandEntry(
                "extensions.sessions.commands:import_past_sessions", "Read past sessions of coding agents."
            ),
            "imported": CommandEntry(
                "extensions.sessions.commands:list_imported_sessions", "List the sessions that were imported."
            ),
            "consolidate": CommandEntry(
                "extensions.learning.commands:consolidate", "Merge, promote, fade and archive; --dry-run says why."
            ),
            "feedback": CommandEntry(
                "extensions.learning.commands:record_feedback", "Say that a memory is right, wrong or overridden."
            ),
            "suggest": CommandEntry(
                "extensions.learning.commands:suggest_preferences", "Your habits that this project says nothing of."
            ),
            "mute": CommandEntry("extensions.learning.commands:mute_key", "Stop suggesting a key."),
        },
    ),
    "session": (
        "Show, change or end the working session of this branch; `ask` resumes it by itself.",
        {
            "show": CommandEntry("cli.session:show_session", "What the next turn goes on with."),
            "list": CommandEntry("cli.session:list_sessions", "The sessions of all branches."),
            "resume": CommandEntry("cli.session:resume_thread", "Go on with another session."),
            "fresh": CommandEntry("cli.session:begin_fresh", "Begin a new session on this branch."),
            "close": CommandEntry(
                "extensions.learning.commands:close_sessions", "End a session and keep what it learned."
            ),
            "save": CommandEntry("extensions.exchange.checkpoint_commands:save_checkpoint", "Save a checkpoint."),
            "load": CommandEntry("extensions.exchange.checkpoint_commands:show_checkpoint", "Show a checkpoint."),
            "checkpoints": CommandEntry(
                "extensions.exchange.checkpoint_commands:list_checkpoints", "List the checkpoints."
            ),
            "delete": CommandEntry(
                "extensions.exchange.checkpoint_commands:delete_checkpoint", "Erase a checkpoint for good."
            ),
        },
    ),
    "history": (
        "Look at past turns and erase them.",
        {
            "list": CommandEntry("cli.history:list_history", "Past turns, newest first."),
            "show": CommandEntry("cli.history:show_turn", "Print a past turn again, from its receipt."),
            "delete": CommandEntry(
                "extensions.privacy.commands:delete_turns", "Erase past turns: question, answer, receipt."
            ),
        },
    ),
    "batch": (
        "Judge a list of questions against every memory: by a vendor's Batch API at half the price, or live.",
        {
            "submit": CommandEntry("extensions.batch.submit_commands:submit_batch", "Send a list to the Batch API."),
            "run": CommandEntry("extensions.batch.submit_commands:run_batch", "Judge a list by live calls."),
            "rescore": CommandEntry(
                "extensions.batch.submit_commands:rescore_judgments", "Judge again what edits have changed."
            ),
            "status": CommandEntry("extensions.batch.commands:show_job_status", "Show how far a job is."),
            "wait": CommandEntry("extensions.batch.commands:wait_for_jobs", "Collect until everything is in."),
            "collect": CommandEntry("extensions.batch.commands:collect_jobs", "Fetch results, send what is next."),
            "cancel": CommandEntry("extensions.batch.commands:cancel_job", "Send nothing more of a job."),
            "list": CommandEntry("extensions.batch.commands:list_jobs", "Every job of this repository."),
        },
    ),
    "store": (
        "Look at and look after the store of this repository: judgments, trust, encryption, repair.",
        {
            "cache": CommandEntry("cli.store:show_cache", "Count cached judgments and their hit rate."),
            "prune": CommandEntry("cli.store:prune_cache", "Remove judgments that nothing can reach."),
            "export": CommandEntry(
                "extensions.exchange.commands:export_judgments", "Write judgments as one signed Parquet file."
            ),
            "import": CommandEntry(
                "extensions.exchange.commands:import_judgments", "Take over judgments of another machine of yours."
            ),
            "key": CommandEntry("extensions.exchange.commands:print_new_key", "Print a new key to sign exports with."),
            "trust": CommandEntry("cli.store:trust_store", "Accept a store that was made elsewhere."),
            "rebuild": CommandEntry("extensions.recovery.commands:rebuild", "Set a store aside and build a new one."),
            "encrypt": CommandEntry("extensions.privacy.commands:encrypt", "Encrypt the store, or your own."),
            "decrypt": CommandEntry("extensions.privacy.commands:decrypt", "Write an encrypted store as plain again."),
        },
    ),
    "config": (
        "Show the settings in force. They are set in files, by the environment and by flags, never here.",
        {
            "show": CommandEntry("cli.config:show_config", "Every effective setting; --origin says from where."),
            "completion": CommandEntry("cli.config:completion", "Print the completion script of a shell."),
        },
    ),
}


class LazyGroup(click.Group):
    """Commands by name, from a table of the catalogue."""

    def __init__(self, *arguments: Any, sections: Mapping[str, Mapping[str, CommandEntry]], **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.sections = sections
        self.entries = {name: entry for section in sections.values() for name, entry in section.items()}

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Name the commands in the order of the table."""
        return list(self.entries)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one command, or make the group of that name."""
        entry = self.entries.get(cmd_name)
        if entry is None:
            return None
        if not entry.place:
            words, entries = GROUPS[cmd_name]
            return LazyGroup(cmd_name, sections={"Commands": entries}, help=words, no_args_is_help=True)
        module, _, attribute = entry.place.partition(":")
        command = getattr(import_module(f"xscore.{module}"), attribute)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands from the table, importing none."""
        for title, entries in self.sections.items():
            with formatter.section(title):
                formatter.write_dl([(name, entry.line) for name, entry in entries.items()])
