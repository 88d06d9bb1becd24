"""What our figures are called in spans: the one map to OpenTelemetry's GenAI conventions.

What they have a name for has theirs; all else is `xscore.*`. A test holds every name against the conventions package
that is installed, so that one they rename is noticed. Trade-off: the GenAI names are still in development. Version 1.42
moved them, as they were, to a repository of their own that has published no schema yet, so spans carry the schema URL
of that version.
"""

CONVENTIONS = "1.42.0"
"""Version of the semantic conventions that the names below are of."""
SCHEMA_URL = f"https://opentelemetry.io/schemas/{CONVENTIONS}"

OPERATIONS: dict[str, str] = {"judge": "chat", "primary": "chat", "probe": "chat", "embed": "embeddings"}
"""Stage of a call -> `gen_ai.operation.name`."""

CALL: dict[str, str] = {
    "operation": "gen_ai.operation.name",
    "provider": "gen_ai.provider.name",
    "model": "gen_ai.request.model",
    "address": "server.address",
    "port": "server.port",
    "error": "error.type",
    "thread": "gen_ai.conversation.id",
    "input_tokens": "gen_ai.usage.input_tokens",
    "cached_input_tokens": "gen_ai.usage.cache_read.input_tokens",
    "cache_write_tokens": "gen_ai.usage.cache_creation.input_tokens",
    "output_tokens": "gen_ai.usage.output_tokens",
    "reasoning_tokens": "gen_ai.usage.reasoning.output_tokens",
    "turn_id": "xscore.turn.id",
    "stage": "xscore.stage",
    "candidates": "xscore.candidates",
    "cost_usd": "xscore.cost_usd",
    "estimated": "xscore.usage.estimated",
}
"""What is told of one attempt -> name of the attribute."""

TURN: dict[str, str] = {
    "turn_id": "xscore.turn.id",
    "thread": "gen_ai.conversation.id",
    "error": "error.type",
    "command": "xscore.command",
    "judge": "xscore.judge",
    "is_model": "xscore.judge.is_model",
    "exit_code": "xscore.exit_code",
    "candidates": "xscore.coverage.candidates",
    "judged": "xscore.coverage.judged",
    "cached": "xscore.coverage.cached",
    "carried": "xscore.coverage.carried",
    "unjudged": "xscore.coverage.unjudged",
    "kept": "xscore.kept",
    "near": "xscore.near_threshold",
    "threshold": "xscore.threshold",
    "calls": "xscore.calls",
    "attempts": "xscore.attempts",
    "cost_usd": "xscore.cost_usd",
}
"""What is told of a turn -> name of the attribute."""

STAGE: dict[str, str] = {"turn_id": "xscore.turn.id", "stage": "xscore.stage", "error": "error.type"}
"""What is told of a stage -> name of the attribute."""
