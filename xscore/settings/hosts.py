"""Where models are: the hosts of both chat dialects, of decision models and of an embedder, and the
keys for them."""

from msgspec import Struct, field

from xscore.settings.values import Fixed, Secret, SettingsGroup


class EmbeddingSettings(SettingsGroup, frozen=True):
    """Vectors in addition to the built-in word hash: for ordering, near duplicates and merging; they
    decide nothing."""

    model: str = "terms"
    """`terms` (built in), or `openai:MODEL` for an embeddings endpoint, a local one too."""
    base_url: str = ""
    """Host of the embeddings endpoint; empty: that of `openai.base_url`."""
    search: Secret = Secret("")
    """Where vectors are searched; empty: in the store. `postgresql://HOST/DATABASE` (extra `pgvector`), `qdrant:https://HOST:6333` (extra `qdrant`) or `qdrant:/FOLDER` (extra `qdrant-edge`)."""

    @property
    def by_model(self) -> bool:
        """Whether a model makes the vectors, and not the words alone."""
        return self.model.strip() != "terms"


class OpenAISettings(SettingsGroup, frozen=True):
    """Where the OpenAI dialect goes."""

    base_url: str = "https://api.openai.com/v1"
    """Any server that speaks the dialect; `OPENAI_BASE_URL` in the environment."""
    api_key: Secret = Secret("")
    """From the environment, as `OPENAI_API_KEY`. Never from a file."""
    api_key_env: Fixed[str] = "OPENAI_API_KEY"


class AnthropicSettings(SettingsGroup, frozen=True):
    """Where the Anthropic dialect goes."""

    base_url: str = "https://api.anthropic.com"
    """The host of the Anthropic dialect; `ANTHROPIC_BASE_URL` in the environment."""
    api_key: Secret = Secret("")
    """From the environment, as `ANTHROPIC_API_KEY`. Never from a file."""
    api_key_env: Fixed[str] = "ANTHROPIC_API_KEY"


class HostAccess(Struct, frozen=True):
    """Where a host is, and the key for it."""

    base_url: str
    api_key: Secret = Secret("")
    api_key_env: str = ""


class DecisionSettings(SettingsGroup, frozen=True):
    """Hosts of decision models, from the environment alone."""

    hosts: Fixed[dict[str, HostAccess]] = field(default_factory=dict)
    """Provider -> what `<PROVIDER>_BASE_URL` and `<PROVIDER>_API_KEY` say."""
