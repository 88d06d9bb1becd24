"""The settings of the house, read once at the door and handed down."""

from xscore.settings.layers import EmbeddingSettings, MemorySettings, RoutingSettings, SessionSettings
from xscore.settings.load import Loaded, all_names, load, repo_may_set, variable
from xscore.settings.model import (
    AnthropicSettings,
    BoostSettings,
    BundleSettings,
    IndexSettings,
    JudgeSettings,
    OpenAISettings,
    PrimarySettings,
    SelectionSettings,
    Settings,
    StoreSettings,
)
from xscore.settings.spending import BudgetSettings, GateSettings
from xscore.settings.telemetry import TelemetrySettings

__all__ = [
    "AnthropicSettings",
    "BoostSettings",
    "BudgetSettings",
    "BundleSettings",
    "EmbeddingSettings",
    "GateSettings",
    "IndexSettings",
    "JudgeSettings",
    "Loaded",
    "MemorySettings",
    "OpenAISettings",
    "PrimarySettings",
    "RoutingSettings",
    "SelectionSettings",
    "SessionSettings",
    "Settings",
    "StoreSettings",
    "TelemetrySettings",
    "all_names",
    "load",
    "repo_may_set",
    "variable",
]
