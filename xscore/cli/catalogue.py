"""Every command's name, place and one line, so that `xscore --help` imports none of them.

Its only behavior is finding a command. Trade-off: a command's summary is here and not beside the command.
"""

from collections.abc import Mapping
from importlib import import_module
from typing import Any, NamedTuple

import click

_TABLE = """
Ask
  ask       cli.ask:ask  Judge every memory against TASK, then answer with what matters.
  context   cli.ask:context  Print the chosen context alone, for a model of your own.
  continue  cli.ask:continue_turn  Finish a turn that was cut short.
  explain   cli.explain:explain  Say why a memory was or was not chosen.
  estimate  cli.explain:estimate  Count calls, tokens, dollars and minutes; send nothing.
Remember
  memory    - Decisions, failures, preferences: list, add, change and erase.
    list            cli.memory:list_memories  What is remembered beside code, newest first.
    show            cli.memory:show_memories  Everything known about memories, by exact ID.
    add             cli.memory:add_memory  Remember a decision, failure, preference or fact.
    update          cli.memory:update_memory  Change a memory; it keeps its ID and history.
    delete          extensions.privacy.commands:delete_memories  Erase memories by ID for good.
    wipe            extensions.privacy.commands:wipe_memories  Erase a whole layer, scope, kind or imported session.
    stats           cli.memory:memory_stats  Rows, bytes, age and use of each layer.
    audit           extensions.learning.commands:audit_memories  Find duplicates, stale memories and secrets.
    export          extensions.exchange.commands:export_memories  Write memories as lines of JSON.
    import          extensions.exchange.commands:import_memories  Read exported memories back in.
    import-sessions extensions.sessions.importing:import_past_sessions  Read past sessions of coding agents.
    imported        extensions.sessions.importing:list_imported_sessions  List the sessions that were imported.
    consolidate     extensions.learning.commands:consolidate  Merge, promote, fade and archive; --dry-run says why.
    feedback        extensions.learning.commands:record_feedback  Say that a memory is right, wrong or overridden.
    suggest         extensions.learning.commands:suggest_preferences  Your habits that this project says nothing of.
    mute            extensions.learning.commands:mute_key  Stop suggesting a key.
  session   - The working session of this branch, and its checkpoints.
    show        cli.session:show_session  What the next turn goes on with.
    list        cli.session:list_sessions  The sessions of all branches.
    resume      cli.session:resume_thread  Go on with another session.
    fresh       cli.session:begin_fresh  Begin a new session on this branch.
    close       extensions.learning.commands:close_sessions  End a session and keep what it learned.
    save        extensions.exchange.checkpoint_commands:save_checkpoint  Save a checkpoint.
    load        extensions.exchange.checkpoint_commands:show_checkpoint  Show a checkpoint.
    checkpoints extensions.exchange.checkpoint_commands:list_checkpoints  List the checkpoints.
    delete      extensions.exchange.checkpoint_commands:delete_checkpoint  Erase a checkpoint for good.
  history   - Past turns: list, show, delete.
    list   cli.history:list_history  Past turns, newest first.
    show   cli.history:show_turn  Print a past turn again, from its receipt.
    delete extensions.privacy.commands:delete_turns  Erase past turns: question, answer, receipt.
Measure
  report    cost_reports.commands:report  Dollars, tokens, time and coverage; a gate for CI.
  eval      extensions.evaluation.commands:evaluate  Measure what the judge finds, with gold.
  batch     - Judge a list of questions, live or at a Batch API's half price.
    submit  extensions.batch.submit_commands:submit_batch  Send a list to the Batch API.
    run     extensions.batch.submit_commands:run_batch  Judge a list by live calls.
    rescore extensions.batch.submit_commands:rescore_judgments  Judge again what edits have changed.
    status  extensions.batch.commands:show_job_status  Show how far a job is.
    wait    extensions.batch.commands:wait_for_jobs  Collect until everything is in.
    collect extensions.batch.commands:collect_jobs  Fetch results, send what is next.
    cancel  extensions.batch.commands:cancel_job  Send nothing more of a job.
    list    extensions.batch.commands:list_jobs  Every job of this repository.
Set up
  index     cli.repository:index  Bring the memories of a repository up to date.
  mcp       extensions.agents.mcp_server:mcp  Serve this repository to an agent (MCP, stdio).
  watch     extensions.agents.watch_commands:watch  Keep index and open threads up to date while you work.
  status    cli.repository:status  Show what the store of this repository holds.
  hook      extensions.agents.hook:hook  Add context to a coding agent's prompts; agents run it.
  doctor    cli.repository:doctor  Check keys, hosts, store and settings.
  graph     cli.repository:graph  What a file depends on, and what depends on it.
  agent     - Coding agents: give each prompt its context.
    install extensions.agents.install_commands:install  Add xscore to an agent's files; --print, --write, --remove.
    list    extensions.agents.install_commands:list_agents  Show which agents have xscore installed.
  config    - Effective settings and where they came from; shell completion.
    show       cli.repository:show_config  Every effective setting; --origin says from where.
    completion cli.repository:completion  Print the completion script of a shell.
  store     - Judgments, trust, encryption and repair of this store.
    cache   cli.store:show_cache  Count cached judgments and their hit rate.
    prune   cli.store:prune_cache  Remove judgments that nothing can reach.
    export  extensions.exchange.commands:export_judgments  Write judgments as one signed Parquet file.
    import  extensions.exchange.commands:import_judgments  Take over judgments of another machine of yours.
    key     extensions.exchange.commands:print_new_key  Print a new key to sign exports with.
    trust   cli.store:trust_store  Accept a store that was made elsewhere.
    rebuild extensions.recovery.rebuild:rebuild  Set a store aside and build a new one.
    encrypt extensions.privacy.commands:encrypt  Encrypt the store, or your own.
    decrypt extensions.privacy.commands:decrypt  Write an encrypted store as plain again.
"""
"""Section; command, `module:function` inside xscore, one line; below a group (`-`) its commands."""


class CommandEntry(NamedTuple):
    """Where a command lives and what the listing says of it."""

    place: str
    """`-` for a group."""
    line: str
    commands: "dict[str, CommandEntry]"
    """Of a group."""


def _read_table() -> dict[str, dict[str, CommandEntry]]:
    sections: dict[str, dict[str, CommandEntry]] = {}
    entries: dict[str, CommandEntry] = {}
    group: dict[str, CommandEntry] = {}
    for row in _TABLE.strip().splitlines():
        if not row.startswith(" "):
            entries = sections.setdefault(row, {})
            continue
        name, place, line = row.split(maxsplit=2)
        entry = CommandEntry(place, line, {})
        if row.startswith("    "):
            group[name] = entry
        else:
            entries[name], group = entry, entry.commands
    return sections


SECTIONS = _read_table()
COMMANDS = {name: entry for section in SECTIONS.values() for name, entry in section.items()}


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
        if entry.commands:
            return LazyGroup(cmd_name, sections={"Commands": entry.commands}, help=entry.line, no_args_is_help=True)
        module, _, attribute = entry.place.partition(":")
        command = getattr(import_module(f"xscore.{module}"), attribute)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands from the table, importing none."""
        for title, entries in self.sections.items():
            with formatter.section(title):
                formatter.write_dl([(name, entry.line) for name, entry in entries.items()])
