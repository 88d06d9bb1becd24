"""Choose who judges and who answers, from settings and what the store knows of hosts: nothing is
sent.

If no model is named, the vendor whose key is set does both, OpenAI first; without a key the lexical
judge scores and no model answers. A named model that cannot be used is an error, never silently
another judge. A replay needs no key.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from xscore.cache.keys import judge_key
from xscore.pipeline.judge_description import JudgeDescription, Scale
from xscore.platform.errors import AuthenticationFailed, NoUsableModel
from xscore.providers.decision_hosts import CHAT_OF_OPENAI, DECISION_HOSTS, DECISIONS_OF_OPENAI
from xscore.providers.hosts import DUMMY_KEY, is_host_within
from xscore.providers.spec import (
    LEXICAL,
    ModelSpec,
    connect_provider,
    host_with_key,
    parse_model_spec,
)
from xscore.records.calls import Answerer
from xscore.records.judgment import lexical_identity
from xscore.settings import (
    DecisionSettings,
    HostAccess,
    JudgeSettings,
    PrimarySettings,
    Secret,
    Settings,
)
from xscore.settings.load import DECISION_VENDORS, VENDORS
from xscore.settings.values import OTHER_JUDGES, OTHER_PRIMARIES
from xscore.store.store import Store
from xscore.store.term_vectors import TERM_EMBEDDER

NO_KEY = "no key: ranked by matching words only"
"""Warning of a turn without a key."""
REPLAY_NOTE = "replay: nothing is sent, so what is not in the cache stays unjudged"
"""Warning of a replay; dropped for a list that is all cached."""


def choose_judge(settings: Settings) -> tuple[ModelSpec, tuple[str, ...]]:
    """Return the judge and a warning.

    Raises NoUsableModel for a named model that is not available.
    """
    judge = settings.judge
    if parse_model_spec(judge.model).provider == LEXICAL:
        return parse_model_spec(judge.model), ()
    fallbacks = None if is_model_named(judge) else OTHER_JUDGES
    spec = _first_with_a_key(judge.model, fallbacks, settings)
    if spec is None:
        return ModelSpec(LEXICAL, ""), (NO_KEY,)
    return with_wire(spec, settings), ()


def settings_judged_by(name: str, settings: Settings) -> Settings:
    """Return the settings with this model as the judge, as if the user had named it."""
    return replace(settings, judge=replace(settings.judge, model=name, is_named=True))


def with_wire(spec: ModelSpec, settings: Settings) -> ModelSpec:
    """Return how this model of OpenAI's judges: through decisions or through chat (`judge.wire`,
    `openai-chat:`)."""
    if spec.provider == CHAT_OF_OPENAI:
        return ModelSpec("openai", spec.model)
    wire = settings.judge.wire
    if spec.provider != "openai" or wire == "chat":
        return spec
    if wire == "auto":
        # Only the model that is declared for decisions, and only at OpenAI's own address: another
        # host under this name may take chat alone.
        declared = DECISION_HOSTS[DECISIONS_OF_OPENAI]
        if spec.model != declared.model:
            return spec
        if not is_host_within(settings.openai.base_url, declared.vendor):
            return spec
    return ModelSpec(DECISIONS_OF_OPENAI, spec.model)


def choose_answerer(settings: Settings) -> Answerer | None:
    """Return the answering model; None in a replay, and if no default has a key.

    Raises NoUsableModel for a named one that has none.
    """
    primary = settings.primary
    if settings.judge.replay:
        return None
    if parse_model_spec(primary.model).provider == LEXICAL:
        raise NoUsableModel(
            "the lexical judge cannot answer", hint="Name a model: --model provider:model."
        )
    fallbacks = None if is_model_named(primary) else OTHER_PRIMARIES
    spec = _first_with_a_key(primary.model, fallbacks, settings)
    if spec is None:
        return None
    return Answerer(spec.provider, spec.model, host_with_key(spec, settings))


def replay_settings(settings: Settings, *, store: Store) -> tuple[Settings, tuple[str, ...]]:
    """Return settings that send nothing and find cached judgments, and a warning.

    Where no model is named and no key decides, the model that judged last in this store is used.
    """
    judge = settings.judge
    note = REPLAY_NOTE
    if not is_model_named(judge):
        keyed = _first_with_a_key(judge.model, OTHER_JUDGES, settings)
        newest = "" if keyed else _latest_judge(store)
        judge = replace(judge, model=str(keyed or newest or judge.model))
        if keyed is None:
            why = "which judged here last" if newest else "the default"
            note += f"; no judge is set and no key suggests one, so it is {judge.model}, {why}"
    embedding = settings.embedding
    if embedding.model.strip().startswith("openai:"):
        embedding = replace(embedding, model="terms")
    return replace(with_dummy_keys(settings), judge=judge, embedding=embedding), (note,)


def _latest_judge(store: Store) -> str:
    """Return the model that judged last (`provider:model`); empty if none has."""
    from xscore.store.turn_history import latest_judge  # only without a model named and a key

    return latest_judge(store.connection)


def with_dummy_keys(settings: Settings) -> Settings:
    """Return settings under which every model can be chosen, and none called."""
    dummy = Secret(DUMMY_KEY)
    vendors = {name: replace(getattr(settings, name), api_key=dummy) for name in VENDORS}
    hosts = {name: HostAccess("", dummy) for name in DECISION_VENDORS}
    for name, access in settings.decisions.hosts.items():
        hosts[name] = HostAccess(access.base_url, dummy, access.api_key_env)
    return replace(settings, decisions=DecisionSettings(hosts=hosts), **vendors)


def is_model_named(part: JudgeSettings | PrimarySettings) -> bool:
    """Return whether the user named the model, even if it is the default."""
    return part.is_named or part.model != type(part)().model


def _first_with_a_key(
    named: str, fallbacks: Sequence[str] | None, settings: Settings
) -> ModelSpec | None:
    """Return the first model that has a key, or None. fallbacks: None for a model that the user
    named."""
    for spec in map(parse_model_spec, (named, *(fallbacks or ()))):
        try:
            host_with_key(spec, settings)
        except AuthenticationFailed as error:
            if fallbacks is None:
                raise NoUsableModel(error.message, hint=error.hint) from error
        else:
            return spec
    return None


def describe_judge(spec: ModelSpec, settings: Settings, *, store: Store) -> JudgeDescription:
    """Describe this judge. Raises what `connect_provider` raises."""
    if spec.provider == LEXICAL:
        return describe_lexical_judge(settings, store=store)
    # The lexical judge needs none of it.
    from xscore.pipeline.describe_model import describe_model_judge

    if spec.provider == DECISIONS_OF_OPENAI:
        from xscore.pipeline.known_hosts import takes_decisions  # only for a decision model

        provider = connect_provider(spec, settings)
        if not takes_decisions(store.connection, provider, spec.model, now=store.clock()):
            spec = ModelSpec("openai", spec.model)
    return describe_model_judge(spec, settings, store=store)


def describe_lexical_judge(settings: Settings, *, store: Store) -> JudgeDescription:
    """Describe the judge without a model. An embedder's likeness makes it another judge."""
    embeds = settings.embedding.by_model
    identity = lexical_identity(TERM_EMBEDDER)
    if embeds:
        model = f"{identity.model}+{settings.embedding.model.strip()}"
        identity = replace(identity, model=model)
    return JudgeDescription(
        spec=ModelSpec(LEXICAL, ""),
        identity=identity,
        paid=False,
        stored=False,
        batches_memories=False,
        # Words alone need nothing but the store; a shared server is asked whether it answers.
        needs_resources=embeds or settings.shared.is_used,
        scale=Scale.WORDS,
        thresholds=settings.selection.thresholds_of_words,
        settings=settings,
        store=store,
    )


def configured_judge(settings: Settings, *, store: Store) -> str | None:
    """Return the key of the judge that the next turn would have; None if it keeps no judgments.
    Needs no API key.

    Raises NoUsableModel, UsageError.
    """
    keyless, _ = replay_settings(settings, store=store)
    judge = describe_judge(choose_judge(keyless)[0], keyless, store=store)
    return judge_key(judge.identity) if judge.stored else None
