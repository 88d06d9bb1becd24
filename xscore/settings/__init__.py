"""The settings of the house, read once at the door and handed down."""

from xscore.settings.layers import EmbeddingSettings, MemorySettings, RoutingSettings, SessionSettings
from xscore.settings.load import Loaded, all_names, load, repo_may_set, variable
from xscore.settings.model import (
    AnthropicSettings,
    BoostSettings,
    BudgetSettings,
    BundleSettings,
    IndexSettings,
    JudgeSettings,
    OpenAISettings,
    PrimarySettings,
    SelectionSettings,
    Settings,
    StoreSettings,
)

__all__ = [
    "AnthropicSettings",
    "BoostSettings",
    "BudgetSettings",
    "BundleSettings",
    "EmbeddingSettings",
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
    "all_names",
    "load",
    "repo_may_set",
    "variable",
]
