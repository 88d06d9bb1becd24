"""The entry point: finds the command, imports only it, and turns any outcome into an exit code.

It has every command's name, place and one line, so that `xscore --help` imports none. It knows no
command's options and prints no result. Commands return their exit code; None is 0.
"""

import os
import sys
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, Final, NamedTuple, NoReturn

import click

from xscore.cli.start import run_and_report, run_process
from xscore.cli.terminal import OUTPUT
from xscore.platform.errors import ExitCode, UsageError

ENDED_AT_SIGTERM = frozenset({"watch"})
"""Commands that SIGTERM ends at once. A handler of ours would wait for a long call in C (a parse, a
pattern, a lock of SQLite), and their results are not read; the next process finds the dead lease
and the unsettled calls."""
WORDS_OF_A_TASK = 3
"""An unknown command of this many words or more is taken for a question."""
SYNONYMS = {
    **dict.fromkeys(("forget", "remove", "rm", "del", "erase"), ("delete", "wipe")),
    **dict.fromkeys(("get", "view", "cat", "open"), ("show", "load")),
    **dict.fromkeys(("ls", "all"), ("list",)),
    **dict.fromkeys(("create", "new", "remember"), ("add", "save", "submit", "fresh")),
    **dict.fromkeys(("edit", "change", "set"), ("update",)),
    **dict.fromkeys(("why",), ("explain",)),
    **dict.fromkeys(("search", "find", "query"), ("ask",)),
    **dict.fromkeys(("cost", "price"), ("estimate",)),
}
"""A word that people try -> commands that it may mean; the first of them that the group has is
suggested."""
COMPLETE_VARIABLE = "_XSCORE_COMPLETE"
_TABLE = """
Ask
  ask       cli.ask:ask  Judge every memory against TASK, then answer with what matters.
  context   cli.ask:context  Print only the chosen context, for your own model.
  continue  cli.ask:continue_turn  Finish a turn that was cut short.
  explain   cli.explain:explain  Say why a memory was or was not chosen.
  estimate  cli.explain:estimate  Count calls, tokens, dollars and minutes; send nothing.
  show      extensions.pages.commands:show  Open a turn as a page: map, choices, answer, cost.
  check     extensions.checking.commands:check  Find what a change makes outdated, and what it is missing.
  graph     cli.graph:graph  What a file depends on, and what depends on it.
Remember
  memory    - Decisions, failures, preferences: list, add, change and erase.
    list            cli.memory:list_memories  List memories other than code, newest first.
    show            cli.memory:show_memories  Show all details of memories, by exact ID.
    add             cli.memory:add_memory  Remember a decision, failure, preference or fact.
    update          cli.memory:update_memory  Change a memory; it keeps its ID and history.
    delete          extensions.privacy.commands:delete_memories  Erase memories by ID for good.
    wipe            extensions.privacy.commands:wipe_memories  Erase a whole layer, scope, kind or imported session.
    stats           cli.memory:memory_stats  Rows, bytes, age and use of each layer.
    audit           extensions.learning.commands:audit_memories  Find duplicates, stale memories and secrets.
    export          extensions.transfer.commands:export_memories  Write memories as lines of JSON.
    import          extensions.transfer.commands:import_memories  Read exported memories back in.
    import-sessions extensions.sessions.importing:import_past_sessions  Read past sessions of coding agents.
    imported        extensions.sessions.importing:list_imported_sessions  List the sessions that were imported.
    review          extensions.extraction.commands:review_facts  Accept, correct or reject what sessions left behind.
    extract         extensions.extraction.commands:extract_facts  Extract facts from sessions not read yet.
    consolidate     extensions.learning.commands:consolidate  Merge, promote, fade and archive; --dry-run says why.
    feedback        extensions.learning.commands:record_feedback  Mark a memory as right, wrong or overridden.
    suggest         extensions.learning.commands:suggest_preferences  Suggest preferences of your other projects.
    mute            extensions.learning.commands:mute_key  Stop suggesting a key.
  fetch     extensions.documents.commands:fetch  Read documents and web pages: PDF, DOCX, HTML, text.
  session   - The working session of this branch, and its checkpoints.
    show        cli.session:show_session  What the next turn continues.
    list        cli.session:list_sessions  The sessions of all branches.
    resume      cli.session:resume_thread  Continue another session.
    fresh       cli.session:begin_fresh  Begin a new session on this branch.
    compress    extensions.compression.commands:compress  Write an agent's session within a token budget.
    expand      extensions.compression.commands:expand  Show turns of an agent's session in full.
    close       extensions.learning.commands:close_sessions  End a session and keep what it learned.
    save        extensions.transfer.checkpoints:save_session  Save a checkpoint.
    load        extensions.transfer.checkpoints:show_checkpoint  Show a checkpoint.
    checkpoints extensions.transfer.checkpoints:print_checkpoints  List the checkpoints.
    delete      extensions.transfer.checkpoints:delete_checkpoint  Erase a checkpoint for good.
  history   - Past turns: list, show, delete.
    list   cli.history:list_history  Past turns, newest first.
    show   cli.history:show_turn  Print a past turn again, from its receipt.
    delete extensions.privacy.commands:delete_turns  Erase past turns: question, answer, receipt.
Measure
  report    cost_reports.commands:report  Dollars, tokens, time and coverage; a gate for CI.
  view      extensions.view.command:view  Look at turns in a browser: search, compare, watch, review.
  eval      + Measure the judge on tasks with known answers.
    run     extensions.evaluation.commands:evaluate  Run each case and measure what is found.
    mine    extensions.evaluation.mine_command:mine  Make cases from this repository's history.
    compare extensions.evaluation.compare_commands:compare_results  Compare judges, prompts, packs or settings case by case.
    calibrate extensions.evaluation.calibrate_command:calibrate  Fit the judge's cut to a recall, measured on past commits.
    probe   extensions.evaluation.probe_command:probe  Ask with and without a layer, commits, sessions or a checkpoint.
    attack  extensions.evaluation.attack_commands:attack_judge  Hide instructions to the judge in copies of files; see if it obeys.
  batch     - Judge a list of questions, live or by a Batch API at half price.
    list    extensions.batch.commands:list_jobs  Every job of this repository.
    submit  extensions.batch.submit_commands:submit_batch  Send a list to the Batch API.
    run     extensions.batch.submit_commands:run_batch  Judge a list by live calls.
    rescore extensions.batch.submit_commands:rescore_judgments  Judge again what edits have changed.
    purposes extensions.batch.purpose_commands:write_purposes  Have a model describe what files and classes are for.
    status  extensions.batch.commands:show_job_status  Show how far a job is.
    wait    extensions.batch.commands:wait_for_jobs  Collect until everything is in.
    collect extensions.batch.commands:collect_jobs  Fetch results, send what is next.
    cancel  extensions.batch.commands:cancel_job  Cancel a job.
Agents
  agent     - Install xscore in coding agents; list where it is installed.
    list    extensions.agents.install:list_agents  Show which agents have xscore installed.
    install extensions.agents.install:install  Add xscore to an agent's files; --print, --write, --remove.
  hook      extensions.agents.hook:hook  Add context to a coding agent's prompts; agents run it.
  mcp       extensions.agents.mcp_command:mcp  Serve this repository to an agent (MCP, stdio).
  watch     extensions.agents.watch:watch  Keep index and open threads up to date while you work.
Set up
  index     cli.repository:index  Bring the index of a repository up to date.
  status    cli.status:status  Show what the store of this repository holds.
  doctor    cli.repository:doctor  Check keys, hosts, store and settings.
  config    - Show the settings and where each comes from; print shell completion.
    show       cli.config:show_config  Every effective setting; --origin shows its source.
    completion cli.config:completion  Print the completion script of a shell.
  shared    - Memories that a team shares: who, how many, join, export, erase.
    status  extensions.shared.team.commands:show_team  Members, memories, lag, size and growth.
    join    extensions.shared.team.commands:join_team  Join this repository to your team.
    sync    extensions.shared.team.commands:sync_team  Exchange memories with the team now.
    follow  extensions.shared.team.access_commands:follow_repository  Get what the team states about a repository without a clone.
    access  extensions.shared.team.access_commands:change_repository_access  Show or change who may read a repository.
    checkpoint extensions.shared.team.commands:share_checkpoint_with_team  Send a checkpoint to the team.
    session extensions.shared.team.session_command:continue_session  Continue a session of your other machine.
    export  extensions.shared.team.commands:export_team  Write the team's memories as lines of JSON.
    erase   extensions.shared.team.commands:erase_shared_memories  Erase all that you share.
    leave   extensions.shared.team.commands:leave_team  Take this repository out of the team.
    prune   extensions.shared.team.setup_commands:prune_team  Remove the team's unused judgments.
    key     extensions.shared.team.setup_commands:print_team_key  Print a new key for a team.
    init    extensions.shared.team.setup_commands:init_team  Prepare a PostgreSQL for a team.
  store     - Judgments, trust, encryption and repair of this store.
    cache   cli.store:show_cache  Count cached judgments and their hit rate.
    prune   cli.store:prune_cache  Remove judgments that nothing can reach.
    export  extensions.transfer.commands:export_judgments  Write judgments to one signed file.
    import  extensions.transfer.commands:import_judgments  Import judgments from another machine of yours.
    key     extensions.transfer.commands:print_new_key  Print a new key to sign exports with.
    trust   cli.store:trust_store  Accept a store that was made elsewhere.
    rebuild extensions.recovery.rebuild:rebuild  Set a store aside and build a new one.
    encrypt extensions.privacy.encryption_commands:encrypt  Encrypt the store, or your own.
    decrypt extensions.privacy.encryption_commands:decrypt  Decrypt the store, or your own.
"""  # noqa: E501  a table of one command a line
"""One row per command: section, command, `module:function` inside xscore, and one line of help.
A group (`-`) is followed by its commands, first the one that the group's name alone runs. A
group `+` also runs that command for a file: `eval FILE` is `eval run FILE`."""


EXIT_CODES: dict[ExitCode, str] = {
    ExitCode.DONE: "done",
    ExitCode.PARTLY: (
        "partly done, or nothing matched; candidates are unjudged, an audit found something to do,"
        " a session file could not be read, or you answered no to a question"
    ),
    ExitCode.USAGE: "usage; the command or a setting is wrong",
    ExitCode.NOTHING_JUDGED: (
        "no usable model; or nothing was judged, or `doctor` found something to fix"
    ),
    ExitCode.BUDGET: "budget; a cap stopped it",
    ExitCode.GATE: "gate; a figure is worse than its baseline",
    ExitCode.STORE: "store refused or damaged; or erased text is still in its files",
    ExitCode.NO_ANSWER: "judged, but the answer failed; the context is still printed",
    ExitCode.INTERNAL: "internal error",
    ExitCode.INTERRUPTED: "interrupted; what was paid for is kept",
}
"""`xscore --help` shows the words before the semicolon."""


class CommandEntry(NamedTuple):
    """Where a command lives and what the listing says about it."""

    place: str
    """`module:function`, or `-` or `+` for a group."""
    line: str
    commands: "dict[str, CommandEntry]"
    """The commands of a group; empty for a command."""


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
    """Commands by name, imported when one is called."""

    def __init__(
        self,
        *arguments: Any,
        sections: Mapping[str, Mapping[str, CommandEntry]],
        takes_file: bool = False,
        **named: Any,
    ) -> None:
        super().__init__(*arguments, **named)
        self.sections = sections
        self.takes_file = takes_file
        self.entries: Final[dict[str, CommandEntry]] = {}
        for section in sections.values():
            self.entries.update(section)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Name the commands in the order of the table."""
        return list(self.entries)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one command, or make a group."""
        entry = self.entries.get(cmd_name)
        if entry is None:
            return None
        if entry.commands:
            alone = f"`{cmd_name}` alone runs `{cmd_name} {next(iter(entry.commands))}`."
            return LazyGroup(
                cmd_name,
                sections={"Commands": entry.commands},
                takes_file=entry.place == "+",
                help=entry.line,
                epilog=alone,
            )
        module, _, attribute = entry.place.partition(":")
        command = getattr(import_module(f"xscore.{module}"), attribute)
        assert isinstance(command, click.Command)
        return command

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Run the first command of a group that is named alone: `history --limit 3` is `history
        list --limit 3`, and `eval FILE` is `eval run FILE`."""
        words = args[:1]
        names_command = bool(words) and not words[0].startswith("-")
        if names_command and self.takes_file and words[0] not in self.entries:
            # A word that is neither a file nor looks like one is a command misspelled.
            names_command = "." not in words[0] and not Path(words[0]).is_file()
        asks_for_help = bool(words) and words[0] in ctx.help_option_names
        is_call = ctx.parent and not ctx.resilient_parsing
        if is_call and not names_command and not asks_for_help:
            args = [next(iter(self.entries)), *args]
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, or name those that may be meant."""
        is_known = args[0] in self.entries or args[0].startswith("-")
        if not is_known and not ctx.resilient_parsing:
            error = click.exceptions.NoSuchCommand(args[0], None, self.entries, ctx)
            below = []
            for name, entry in self.entries.items():
                if args[0] in entry.commands:
                    below.append(f"'{name} {args[0]}'")
            words = " ".join(word for word in args if not word.startswith("--")).split()
            meant = next(
                (name for name in SYNONYMS.get(args[0], ()) if name in self.entries), ""
            )
            hint = ""
            if meant and (ctx.parent or len(words) < WORDS_OF_A_TASK):
                hint = f"Did you mean '{meant}'?"
            elif below:
                hint = f"Did you mean {' or '.join(below)}?"
            elif ctx.parent and not error.possibilities:
                hint = f"`{ctx.command_path}` has: {', '.join(self.entries)}."
            elif len(words) >= WORDS_OF_A_TASK and not error.possibilities:
                hint = f'Did you mean `xscore ask "{" ".join(words)}"`?'
            if not hint:
                raise error
            message = f"{error.message} {hint}"
            raise click.exceptions.NoSuchCommand(args[0], message, None, ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands from the table, importing none."""
        for title, entries in self.sections.items():
            with formatter.section(title):
                formatter.write_dl([(name, entry.line) for name, entry in entries.items()])


HELP_OPTIONS = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


def show_version(ctx: click.Context, _parameter: click.Parameter, is_asked: bool) -> None:
    """Print the installed version and stop."""
    if is_asked:
        from importlib.metadata import version  # only --version

        click.echo(f"xscore {version('xscore')}")
        ctx.exit(0)


@click.command(
    cls=LazyGroup,
    sections=SECTIONS,
    params=[*OUTPUT],
    context_settings=HELP_OPTIONS,
    epilog="Exit codes: "
    + " · ".join(f"{code} {words.split(';')[0]}" for code, words in EXIT_CODES.items())
    + ".",
)
@click.option(
    "-C",
    "--directory",
    type=click.Path(exists=True, file_okay=False),
    help="Run as if started in DIRECTORY.",
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=show_version,
    help="Show version.",
)
def xscore_command(directory: str | None, **_output: object) -> None:
    """Judge every memory of a repository against a task; keep exactly what matters.

    \b
    An agent needs three: `context "TASK" [PATH]...` finds what matters,
    `explain MEMORY` says why or why not, `memory add TEXT` keeps a decision.
    """
    if directory is not None:
        try:
            os.chdir(directory)
        except OSError as error:
            raise UsageError(
                f"--directory: {directory} cannot be entered: {error.strerror}",
                hint="Name a folder you can open.",
            ) from error
    try:
        Path.cwd()
    except OSError as error:
        raise UsageError(
            "the current folder is gone", hint="Change to an existing folder."
        ) from error


def run_command_line() -> NoReturn:
    """Run the command line and end the process with the exit code."""
    arguments = sys.argv[1:]
    name = _command_name(arguments)
    run_process(
        lambda: run_and_report(lambda: _invoke(arguments), arguments),
        ends_at_sigterm=name in ENDED_AT_SIGTERM,
        is_hook=name == "hook",
    )


def _command_name(arguments: list[str]) -> str:
    """Return the first word, also after options such as `-C FOLDER`; empty if there is none."""
    words = iter(arguments)
    for word in words:
        if word in ("-C", "--directory", "--color"):
            next(words, None)
        elif not word.startswith("-"):
            return word
    return ""


def _invoke(arguments: list[str]) -> object:
    request = os.environ.get(COMPLETE_VARIABLE)
    if request:
        from click.shell_completion import shell_complete  # only a shell that completes

        return shell_complete(xscore_command, {}, "xscore", COMPLETE_VARIABLE, request)
    try:
        with xscore_command.make_context("xscore", list(arguments)) as context:
            return xscore_command.invoke(context)
    except click.exceptions.Exit as end:  # --help, --version
        return end.exit_code
