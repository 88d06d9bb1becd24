"""Settings from defaults, files, the environment and flags: validated once, then passed down."""

from xscore.settings.load import (  # noqa: I001  the sorter would write a statement for each name
    LoadedSettings as LoadedSettings,
    environment_variable as environment_variable,
    load_settings as load_settings,
    repository_may_set as repository_may_set,
    setting_names as setting_names,
    validate_group as validate_group,
)
from xscore.settings.hosts import (
    AnthropicSettings as AnthropicSettings,
    DecisionSettings as DecisionSettings,
    EmbeddingSettings as EmbeddingSettings,
    HostAccess as HostAccess,
    OpenAISettings as OpenAISettings,
)
from xscore.settings.model import (
    AgentSettings as AgentSettings,
    BoostSettings as BoostSettings,
    BudgetSettings as BudgetSettings,
    BundleSettings as BundleSettings,
    DocumentSettings as DocumentSettings,
    GateSettings as GateSettings,
    IndexSettings as IndexSettings,
    JudgeSettings as JudgeSettings,
    MemorySettings as MemorySettings,
    PluginSettings as PluginSettings,
    PrimarySettings as PrimarySettings,
    ProviderSettings as ProviderSettings,
    RoutingSettings as RoutingSettings,
    SelectionSettings as SelectionSettings,
    SessionSettings as SessionSettings,
    Settings as Settings,
    StoreSettings as StoreSettings,
    TelemetrySettings as TelemetrySettings,
)
from xscore.settings.values import PriceRule as PriceRule, Secret as Secret
