"""Every constant that changes an answer: its name, default, bounds and what it means.

The settings reference is made of these docstrings. Only Python can vary a `Fixed` field, and what
it builds is unchecked.
"""

from decimal import Decimal
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta, field

from xscore.records.judgment import USUAL_LEXICAL_THRESHOLD, USUAL_THRESHOLD, Thresholds
from xscore.records.memory import FACT_KINDS, Layer
from xscore.settings.hosts import (
    AnthropicSettings,
    DecisionSettings,
    EmbeddingSettings,
    OpenAISettings,
)
from xscore.settings.values import (
    DEFAULT_JUDGE,
    DEFAULT_PRIMARY,
    NO_FINAL_ROUND,
    Ceiled,
    Days,
    ExtractMode,
    Fixed,
    Fraction,
    Globs,
    Positive,
    PriceRule,
    RepoMay,
    RepoMayTurnOff,
    Seconds,
    Secret,
    SettingsGroup,
    SignalName,
    ThresholdName,
    Tolerance,
    WordsWeight,
)


class JudgeSettings(SettingsGroup, frozen=True):
    """The judge and what it is shown."""

    model: str = DEFAULT_JUDGE
    """`provider:model` of the judge, `lexical`, or `scripted:FILE`. Unset, and with no key for
    OpenAI: `typesafe:jev-1.14.0`, then `anthropic:claude-haiku-5-5`."""
    wire: Literal["auto", "decisions", "decisions-score", "chat"] = "auto"
    """How a model of OpenAI's judges: through `/v1/decisions`, or by chat prompts. `auto`:
    decisions for `gpt-6-luna` at OpenAI's own host. `decisions-score`: every decision model rates
    on five levels instead of saying yes or no."""
    fallback: tuple[str, ...] = ("lexical",)
    """Judges to try, in order, for memories the judge could not score because its host failed,
    refused or sent an unreadable reply: models as in `model`, or `lexical`, which ranks all by
    words where the host was not reached and nothing was judged."""
    pack_size: Annotated[int, Meta(ge=1, le=60)] | None = None
    """Memories per prompt; unset: 40 for models known by name, 60 for long cache floors, otherwise
    20.
    1: one prompt per memory."""
    pack_tokens: Fixed[int | None] = None
    """Target tokens of a pack; unset: 5,000 for models known by name, 2,500 for others."""
    order: Literal["memory_first", "turn_first"] | None = None
    """Unset: as declared for the model. `memory_first` lets provider prefix caches serve the
    pack."""
    sees: Literal["task", "full"] = "task"
    """What the judge sees of the turn: task and errors, or also file, diff and recent files (then
    part of the key)."""
    rubric: Fixed[str] = "code"
    """What the judge looks for: `code`, `general` for entries of any kind (tickets, notes), a text
    of yours within the general one (`xscore.open` sets it), or `check`, what a diff lacks."""
    reasons: Literal["relevant", "all"] = "relevant"
    """Ask for reasons for scores of 0.3 and above, or for all."""
    reason_model: str = "auto"
    """Chat model (`provider:model`) that gives reasons for a decision model's choice, in one call.
    `auto`: OpenAI's by chat where it judges; `none`: no reasons."""
    reasons_from: Fixed[float] = 0.3
    """Lowest score that asks for a reason."""
    tests: RepoMay[Literal["cards", "full"]] = "cards"
    """Show tests to the judge as purpose cards, or in full."""
    purposes: bool = False
    """Show a judging model, with each memory, what its file is for: the line that `xscore batch
    purposes` wrote. The line is part of what is judged: when it changes, all memories of its
    file are judged again."""
    concurrency: Positive | None = None
    """Most calls in flight, found by trying from 16; unset: 64, or 4 for a loopback host."""
    rpm: Positive | None = None
    """Requests per minute; unset: no limit."""
    tpm: Positive | None = None
    """Tokens per minute; unset: no limit."""
    timeout_s: Seconds = 60.0
    """Deadline of one judging call; five times that for a loopback host."""
    attempts: Fixed[int] = 5
    """Attempts of one call before its candidates are unjudged; 429s do not count, of which it may
    meet 20."""
    replay: bool = False
    """Send nothing: what the cache does not hold stays unjudged. Needs no key (`--replay`)."""
    probe: bool = True
    """Find out with one small call what a decision host, or a chat host other than the vendor's
    own, can do, the first time it judges."""
    isolates: Fixed[bool] = True
    """Give a memory that gives instructions to its judge a prompt of its own; False: only to
    measure what that is good for."""
    is_named: Fixed[bool] = False
    """The user chose this judge, even where it is the default."""


class PrimarySettings(SettingsGroup, frozen=True):
    """The answering model."""

    model: str = DEFAULT_PRIMARY
    """`provider:model` of the answering model. Unset, and with a key for Anthropic alone:
    `anthropic:claude-sonnet-5-5`."""
    max_output_tokens: Positive = 8_000
    """Cap on the answer, reasoning included."""
    timeout_s: Fixed[float] = 300.0
    """Deadline of the answering call."""
    reasoning: str = ""
    """Reasoning effort in the vendor's words; empty: the vendor's default."""
    is_named: Fixed[bool] = False
    """The user chose this answering model, even where it is the default."""


class BudgetSettings(SettingsGroup, frozen=True):
    """What a turn may cost."""

    max_usd: Decimal | None = Decimal("1.00")
    """Cap on one turn, in dollars, reserved before each send."""
    max_usd_day: Decimal | None = None
    """Cap on one day (UTC) of a repository, over all its turns and processes; unset: none."""
    max_usd_repository: Decimal | None = None
    """Cap on all that a repository's store has ever cost; unset: none."""
    confirm_usd: Decimal = Decimal("0.25")
    """On a terminal, ask before a turn whose estimate is above this."""
    deadline_s: Seconds | None = None
    """Seconds a turn may take, from the start of the command; what is not judged by then is
    unjudged."""


class GateSettings(SettingsGroup, frozen=True):
    """How much worse than its baseline a figure may be before `xscore report --check` fails."""

    cost: RepoMay[Tolerance] = 0.05
    """Share by which dollars may rise."""
    calls: Fixed[float] = 0.05
    """Share by which calls may rise."""
    tokens: Fixed[float] = 0.05
    """Share by which tokens of each kind may rise, in or out."""
    coverage: RepoMay[Fraction] = 0.0
    """By how much the share of judged candidates may fall."""
    recall: RepoMay[Fraction] = 0.02
    """By how much recall may fall, where both were measured."""
    p95: Fixed[float] = 0.5
    """Share by which the p95 of a stage may rise before it is an alert."""
    latency: RepoMay[Literal["alert", "fail", "off"]] = "alert"
    """What happens when a p95 is more than half above its baseline: an alert, a failed check, or
    nothing."""
    min_samples: Fixed[int] = 30
    """Fewer samples on either side make a p95 inconclusive."""


class SelectionSettings(SettingsGroup, frozen=True):
    """What is kept."""

    threshold: RepoMay[Fraction | dict[ThresholdName, Fraction]] = USUAL_THRESHOLD
    """Lowest final score that is kept (inclusive): a number, or a table by kind: `default`, `code`,
    `doc` and so on; `"typesafe/doc"` is for judges of that provider."""
    lexical_threshold: RepoMay[Fraction] = USUAL_LEXICAL_THRESHOLD
    """The same for the lexical judge, whose scores are probabilities: how likely a commit about the
    task would change the memory. At 0.05 about half of what past commits changed is kept, in six
    memories; what comes near fills free places."""
    lexical_facts_threshold: RepoMay[Fraction] = 0.5
    """The same for what was stated in a sentence or two (decisions, preferences, conventions): the
    lexical judge has evidence of its own for them."""
    words: RepoMay[WordsWeight | None] = None
    """How much the words that a memory shares with the task count in addition to a model's
    score of it: a weight of their log-odds. 0: only the model's score counts. Unset: 0.5."""
    final: str = NO_FINAL_ROUND
    """Another model, `provider:model`, that looks once more at up to 60 memories that came first,
    side by side: its scores count for them, and nothing else is kept. `off`: none does. The lists
    of `xscore batch` have no such round."""
    top_k: RepoMay[Positive] = 15
    """Upper limit of kept memories."""
    min_keep: RepoMay[Annotated[int, Meta(ge=0)]] = 0
    """Fill up from the near misses to this many, labelled below threshold."""
    near_margin: Fixed[float] = 0.2
    """How far below the threshold a memory is still named, in the context and in the receipt."""
    redraw_margin: Fixed[float] = 0.05
    """A decision model is asked twice about memories this close to their threshold, since single
    answers vary by about as much."""
    most_redrawn: Fixed[int] = 60
    """Most memories that it is asked about twice in a turn, the nearest first."""
    tests_share: Fixed[float] = 1 / 3
    """Share of K that tests may take when other memories want the places."""

    @property
    def thresholds_of_words(self) -> Thresholds:
        """The thresholds of the lexical judge."""
        if self.lexical_facts_threshold == self.lexical_threshold:
            return Thresholds(self.lexical_threshold)
        of_facts = dict.fromkeys(map(str, sorted(FACT_KINDS)), self.lexical_facts_threshold)
        return Thresholds(self.lexical_threshold, of_facts)


class BoostSettings(SettingsGroup, frozen=True):
    """What links and recency may add to a score: the judge's, joined with words."""

    cap: RepoMay[Fraction] = 0.15
    """Upper limit of all boosts together."""
    floor: RepoMay[Fraction] = 0.4
    """Lowest score that is boosted at all."""
    dependency: RepoMay[Fraction] = 0.10
    """For what is called by a candidate that passes before boosts; less for hubs with many
    links."""
    dependent: Fixed[float] = 0.05
    """For what calls a candidate that passes before boosts; less for hubs."""
    hub_degree: Fixed[int] = 10
    """Callers and callees an entity may have before its dependency boosts shrink."""
    test_link: RepoMay[Fraction] = 0.10
    """Subject of a passing test, or a test of what is being edited."""
    recency: RepoMay[Fraction] = 0.03
    """Recently modified; halves every 7 days."""
    recency_half_life_days: Fixed[float] = 7.0
    """Days after which the recency boost has halved."""
    locality: RepoMay[Fraction] = 0.03
    """Same file as the current one; half of it for the same folder."""


class BundleSettings(SettingsGroup, frozen=True):
    """What the answering model is shown, and in which order."""

    max_tokens: RepoMay[Positive] = 8_000
    """Token budget of `xscore context` and of the memories in the answer prompt."""
    w_rel: Fixed[float] = 1.0
    """Weight of the final score in the order of the bundle."""
    w_rec: Fixed[float] = 0.1
    """Weight of recency, exp(-λ·days)."""
    w_auth: Fixed[float] = 0.1
    """Weight of the layer's authority."""
    w_conf: Fixed[float] = 0.05
    """Weight of confidence."""
    w_imp: Fixed[float] = 0.05
    """Weight of importance."""
    decay_per_day: Fixed[float] = 0.02
    """λ of the recency term."""
    ceilings: RepoMay[dict[Ceiled, Fraction]] = field(
        default_factory=lambda: {
            "session": 0.40,
            "project": 0.20,
            "user": 0.10,
            "governance": 0.05,
        }
    )
    """Share of the memory text a layer may take; what is left, unspent shares included, is for code
    and documents (graph, vector). A layer not named keeps its default."""
    authority: Fixed[dict[Layer, float]] = field(
        default_factory=lambda: {
            Layer.SESSION: 1.0, Layer.PROJECT: 0.85, Layer.USER: 0.7, Layer.GOVERNANCE: 0.6,
            Layer.GRAPH: 0.5, Layer.VECTOR: 0.4,
        }
    )  # fmt: skip
    """Authority of each layer."""


class IndexSettings(SettingsGroup, frozen=True):
    """Which files become memories."""

    include: RepoMay[Globs] = ()
    """Globs (gitignore syntax) to index, at most 1,000; empty: everything textual."""
    exclude: RepoMay[Globs] = ()
    """Globs (gitignore syntax) to exclude, at most 1,000. Copies of other projects, lockfiles,
    data, and built, minified or generated files stay out unless a glob such as `!vendor/` includes
    them."""
    max_file_bytes: RepoMay[Annotated[int, Meta(ge=1, le=1_000_000_000)]] = 1_000_000
    """Larger files are excluded."""
    max_line_chars: Fixed[int] = 5_000
    """Longer lines lose their middle; files that are mostly such lines are excluded (minified or
    generated)."""
    window_lines: Fixed[int] = 60
    """Lines of a text window."""
    git: bool = True
    """Ask git for the files, the diff, recent changes and commits."""
    commits: Annotated[int, Meta(ge=0, le=100_000)] = 5_000
    """The newest commits that are read: those whose message says something become memories. 0:
    none."""
    also: Annotated[tuple[str, ...], Meta(max_length=50)] = ()
    """Other repositories whose memories are candidates of every turn here: the name of one that is
    indexed on this machine (`acme/lib`), or its folder, relative to the repository (`../lib`)."""
    also_memories: Annotated[int, Meta(ge=1, le=100_000)] = 2_000
    """How many memories of other repositories one turn may judge. If there are more, those nearest
    to the task by words are judged."""
    workers: Positive | None = None
    """Parsing processes; unset: one per processor, for large runs only."""


class MemorySettings(SettingsGroup, frozen=True):
    """What is remembered in addition to code, and for how long."""

    user_learning: RepoMayTurnOff[bool] = True
    """Open your own store: preferences, and what holds in several projects. A repository may only
    switch it off."""
    observe: RepoMayTurnOff[bool] = True
    """Note the commands, the stack and the conventions that the repository's files show, at most
    20, after each change of the index."""
    daily_consolidation: RepoMayTurnOff[bool] = True
    """Let the background process merge, fade and archive memories as `memory consolidate` does, at
    most once a day and only while the machine is idle. A repository may only switch it off."""
    allow_pii: bool = False
    """Keep e-mail addresses, phone numbers and postal addresses of configuration and notes."""
    extract: RepoMayTurnOff[ExtractMode] = "ask"
    """What becomes of facts found in sessions: `ask` keeps them waiting for `xscore memory review`;
    `auto` makes them candidates at once, marked as unreviewed; `off` looks for none. A repository
    may only switch it off. In CI (`CI=true`) it is off unless you set it."""
    extractor: str = ""
    """Chat model that is asked for facts once at the end of a session, as `openai:gpt-6-luna`;
    empty: only fixed forms are read, and nothing is sent."""
    decay_per_day: Fixed[float] = 0.01
    """λ of `base·exp(-λ·days)`, by which confidence fades when a memory is not seen."""
    drop_importance: Fixed[float] = 0.2
    """Memories less important than this are dropped when unused for `drop_days`."""
    drop_days: Fixed[float] = 30.0
    inferred_days: Days = 28.0
    """Days without use after which an inferred fact that cites no code is archived."""
    archive_days: Days = 180.0
    """Days without use after which a memory is archived."""
    prune_days: Days = 365.0
    """Days without use after which an archived memory is erased."""
    document_days: Days = 30.0
    """Days after which a fetched document is shown as out of date, until `xscore fetch
    --refresh`."""
    high_importance: Fixed[float] = 0.8
    """Memories at least this important are neither archived nor erased for their age."""
    inferred_confidence: Fixed[float] = 0.6
    """Confidence with which an inferred memory starts."""
    weak_confidence: Fixed[float] = 0.2
    """An inferred preference below this is archived."""
    feedback: Fixed[dict[SignalName, float]] = field(
        default_factory=lambda: {
            "accept": 0.1,
            "adoption": 0.05,
            "reject": -0.2,
            "override": -0.3,
        }
    )
    """How far each signal moves the confidence of a memory, which stays in 0..1."""
    pattern_at: Fixed[int] = 3
    """Occurrences of a failure that make it a pattern."""
    promote_projects: Fixed[int] = 3
    """Projects in which a fact must hold to become the user's."""
    promote_support: Fixed[float] = 0.5
    """Share of all projects in which it must hold as well."""
    drift_projects: Fixed[int] = 5
    """A preference unused in this many of the latest projects loses confidence."""
    drift_rate: Fixed[float] = 2.0
    """How many times faster than one in use it does."""
    max_rows: dict[Layer, Positive] = field(
        default_factory=lambda: {
            Layer.SESSION: 20_000, Layer.PROJECT: 5_000, Layer.USER: 2_000, Layer.GOVERNANCE: 5_000,
        }
    )  # fmt: skip
    """Most memories of a layer that is not the index's; the least valuable are archived first."""
    max_bytes: Fixed[dict[Layer, int]] = field(
        default_factory=lambda: {
            Layer.SESSION: 64_000_000, Layer.PROJECT: 8_000_000, Layer.USER: 4_000_000, Layer.GOVERNANCE: 8_000_000,
        }
    )  # fmt: skip
    """Most bytes of their text."""


class DocumentSettings(SettingsGroup, frozen=True):
    """What `xscore fetch` may fetch from the network: only what you name, over https, from public
    addresses."""

    allow: Globs = ()
    """Hosts that documents may come from, subdomains included; empty: any that is public."""
    deny: Globs = ()
    """Hosts that no document comes from, subdomains included, also where `documents.allow` has
    them."""
    private_hosts: Globs = ()
    """Hosts inside your own network that documents may come from although their addresses are not
    public, each by its full name. Over https as well; `SSL_CERT_FILE` names their authority."""
    max_bytes: Annotated[int, Meta(ge=1, le=1_000_000_000)] = 25_000_000
    """Larger documents are refused, unpacked or not."""
    timeout_s: Seconds = 30.0
    """Seconds that a document may take, redirects included."""
    suggest: RepoMayTurnOff[bool] = True
    """Say, where a turn finds nothing, that `xscore fetch` could help if the task names an address,
    a newer version than the manifest allows, or asks for news. A repository may only switch it
    off."""


class RoutingSettings(SettingsGroup, frozen=True):
    """How layers are fetched, and what the bundle gives to each by the kind of task."""

    task_type: Literal["auto", "edit", "explain", "design", "refactor", "research"] = "auto"
    """Kind of task; `auto` infers it from the task."""
    strict: bool = False
    """End a turn with an error if a layer cannot be read, instead of naming it."""
    deadline_ms: Fixed[float] = 50.0
    """Deadline of one layer's fetch; a layer that misses it is named and fetched again without
    one."""


class SessionSettings(SettingsGroup, frozen=True):
    """The working session and the tone of its answers."""

    persona: Literal["", "concise", "playful", "formal"] = ""
    """Tone of the answer; empty: plain."""
    exchanges: Annotated[int, Meta(ge=0, le=50)] = 3
    """Latest exchanges of the session that the answering model is shown."""
    summary_model: str = "none"
    """`provider:model` that summarizes what `session compress` would drop of an agent's words;
    `none`: it is shortened by rule alone, and no call is made."""
    summary_calls: Annotated[int, Meta(ge=0, le=100)] = 4
    """Most calls for summaries in one compression."""


class ProviderSettings(SettingsGroup, frozen=True):
    """What calls to a host are taken to cost."""

    price: PriceRule = "auto"
    """`auto`: a host on this machine is free, unless its model is one that only a vendor sells
    (`gpt-…`, `claude-…`, `gemini-…`): then it is a gateway, and the vendor's price counts and is
    capped. `vendor`: the vendor's price also for other models and for hosts that the price tables
    do not know. `free`: a host on this machine costs nothing."""


class BatchSettings(SettingsGroup, frozen=True):
    """How lists of questions are judged."""

    max_requests: Fixed[int | None] = None
    """Requests of one batch; None: what the vendor takes (OpenAI 50,000, Anthropic 100,000)."""
    max_bytes: Fixed[int | None] = None
    """Bytes of one batch; None: what the vendor takes (OpenAI 200 MB, Anthropic 256 MB)."""
    poll_s: Annotated[float, Meta(ge=0.05, le=86_400)] = 60.0
    """Seconds between two checks of `xscore batch wait`."""
    ray_address: str = "local"
    """Where `--ray` judges: `local`, a Ray of its own on this machine; `auto`, one that runs here;
    or a cluster's address."""
    questions_a_call: Annotated[int, Meta(ge=1, le=16)] = 4
    """Questions that share a prompt in `ask --batch`; 1: one question per call."""
    purpose_model: str = ""
    """`provider:model` that writes what files, classes and folders are for (`xscore batch
    purposes`); empty: the judge's model, by chat."""


SharedKind = Literal[
    "decision",
    "convention",
    "architecture",
    "pattern",
    "tech_stack",
    "entity",
    "failure",
    "context",
    "todo",
    "artifact",
]
"""Kinds that a team may share; preferences are each user's own."""


class SharedSettings(SettingsGroup, frozen=True):
    """A server on which several processes and machines share judgments, limits and dollars."""

    url: Secret = Secret("")
    """`redis://HOST` (extra `redis`) or `postgresql://HOST/DATABASE` (extra `postgres`); empty:
    nothing is shared."""
    tenant: Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}\Z")] = "default"
    """Part of every key on the server; tenants see nothing of each other."""
    require: bool = False
    """Stop if the server cannot be reached, instead of continuing with the local store alone."""
    timeout_s: Annotated[float, Meta(gt=0, le=60)] = 2.0
    """Deadline of one request to the server."""
    first_wait_s: Annotated[float, Meta(ge=0, le=60)] = 0.04
    """How long a turn waits for a server that has never answered this clone before it goes on with
    the local store alone. A later answer is used by the rest of the turn, and the next turn waits as
    long as it took. Raise it where every run is a fresh clone and the server is far away."""
    max_usd_day: Decimal | None = None
    """Cap on one day (UTC) of the tenant, over all its processes and machines; unset: none."""
    memories: Literal["off", "read", "write"] = "off"
    """Memories that a team shares on PostgreSQL, in the repositories that `xscore shared join`
    named: `read` brings the others' here, `write` also sends your own."""
    kinds: tuple[SharedKind, ...] = (
        "decision",
        "convention",
        "architecture",
        "pattern",
        "tech_stack",
        "entity",
    )
    """Kinds of memories that are exchanged with the team."""
    memories_url: Secret = Secret("")
    """`postgresql://HOST/DATABASE` of the team's memories (extra `team`); empty: `shared.url`."""
    key: Secret = Secret("")
    """Encrypts the team's memories before they are sent; `xscore shared key` prints one."""
    key_file: Path | None = None
    """A file readable by you alone that holds this key instead."""
    session_key: Secret = Secret("")
    """Your personal key, the same on all your machines: keeps the latest exchanges of your sessions
    on the Redis of `shared.url`, encrypted, so that `xscore shared session` can continue them.
    Empty: none are kept."""
    session_hours: Annotated[float, Meta(gt=0, le=720)] = 24.0
    """How long they are kept."""
    admin_url: Secret = Secret("")
    """An administrator's URL of the same database, for `xscore shared init --apply`."""

    @property
    def is_used(self) -> bool:
        """Whether a server is named, or must be."""
        return bool(self.url.reveal()) or self.require

    @property
    def keeps_sessions(self) -> bool:
        """Whether the latest exchanges are kept for the user's other machines."""
        return bool(self.session_key.reveal())

    @property
    def shares_memories(self) -> bool:
        """Whether a team's memories are read or written."""
        return self.memories != "off"


class CacheSettings(SettingsGroup, frozen=True):
    """The key that machines share to exchange caches."""

    key: Secret = Secret("")
    """Signs exports of the cache, and proves whether an import can be trusted; `xscore store key`
    prints one."""
    key_file: Path | None = None
    """A file readable by you alone that holds the key instead; `--key-file` on the command line."""


class StoreSettings(SettingsGroup, frozen=True):
    """Where the store is, and whether to trust it."""

    trust: bool = False
    """Accept a store made elsewhere (`XSCORE_TRUST_STORE=1`, for CI caches)."""
    user_data_dir: Path | None = None
    """Holds the per-user secret and user layer; unset: the platform's
    (`XSCORE_STORE_USER_DATA_DIR`)."""


class AgentSettings(SettingsGroup, frozen=True):
    """What hooks add to the prompts of a coding agent, and how long they may take."""

    hook_deadline_s: Annotated[float, Meta(ge=0.2, le=60)] = 2.0
    """Seconds from the start of `xscore hook` after which it answers with what is judged; the
    background process judges the rest."""
    memory: Literal["first", "every", "off"] = "first"
    """When hooks tell an agent what was decided, committed and said before: `first`, at the start
    of a session and with its first prompt, later only when the subject changes or something is new;
    `every`, with each prompt; `off`, never. Code is added in every case."""
    failures: Literal["deny", "tell", "off"] = "deny"
    """What is done about failed commands and edits of an agent: `deny` stops, once a session, one
    that is about to be repeated with nothing changed, and says what helped; `tell` denies none and
    answers a failure with what helped before; `off` records none. Always off where the variable
    `CI` is set."""
    hook_max_chars: Fixed[int] = 9_500
    """Most bytes of UTF-8 that join a prompt. Above 10,000, agents show their model a short preview
    instead."""


class PluginSettings(SettingsGroup, frozen=True):
    """What packages that you installed may add; a model or embedder of theirs is named where ours
    are."""

    enabled: tuple[str, ...] = ()
    """Names of entry points in `xscore.boosters`, `xscore.languages`, `xscore.searches` and
    `xscore.sources` to use."""


class TelemetrySettings(SettingsGroup, frozen=True):
    """What leaves this machine in addition to the model calls: nothing, unless set."""

    otel: bool = False
    """Send spans of turns, stages and calls, without any text, to the collector that the standard
    `OTEL_…` variables name (extra `otel`)."""


class Settings(SettingsGroup, frozen=True):
    """All settings. `Settings()` holds the defaults; the command line uses `load_settings`."""

    judge: JudgeSettings = JudgeSettings()
    primary: PrimarySettings = PrimarySettings()
    budget: BudgetSettings = BudgetSettings()
    gates: GateSettings = GateSettings()
    selection: SelectionSettings = SelectionSettings()
    boosts: BoostSettings = BoostSettings()
    bundle: BundleSettings = field(default_factory=BundleSettings)
    index: IndexSettings = IndexSettings()
    memory: MemorySettings = field(default_factory=MemorySettings)
    documents: DocumentSettings = DocumentSettings()
    routing: RoutingSettings = RoutingSettings()
    embedding: EmbeddingSettings = EmbeddingSettings()
    session: SessionSettings = SessionSettings()
    provider: ProviderSettings = ProviderSettings()
    openai: OpenAISettings = OpenAISettings()
    anthropic: AnthropicSettings = AnthropicSettings()
    decisions: DecisionSettings = field(default_factory=DecisionSettings)
    batch: BatchSettings = BatchSettings()
    shared: SharedSettings = SharedSettings()
    cache: CacheSettings = CacheSettings()
    store: StoreSettings = StoreSettings()
    agents: AgentSettings = AgentSettings()
    plugins: PluginSettings = PluginSettings()
    telemetry: TelemetrySettings = TelemetrySettings()
