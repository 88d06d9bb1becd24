"""Settings of telemetry: who is told of turns."""

from pydantic import Field

from xscore.settings.part import Part


class TelemetrySettings(Part):
    """What leaves this machine beside the model calls: nothing, unless set."""

    otel: bool = Field(
        False,
        description="Send spans of turns, stages and calls, without any text, to the collector that the standard `OTEL_…` variables name (extra `otel`).",
    )
