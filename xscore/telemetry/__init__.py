"""Spans of turns, stages and calls, for whoever watches them with OpenTelemetry. Off unless it is set."""
