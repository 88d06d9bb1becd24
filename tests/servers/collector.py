"""A collector of OTLP over HTTP on loopback: stores what it gets, or never answers."""

import asyncio

from aiohttp import web
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.servers.threaded_server import ThreadedServer, serve_app

PROTOBUF = "application/x-protobuf"


class Collector(ThreadedServer):
    """Serves `/v1/traces`. silent: it accepts requests and never answers."""

    def __init__(self, *, silent: bool = False) -> None:
        super().__init__()
        self.silent = silent
        self.bodies: list[bytes] = []

    @property
    def url(self) -> str:
        """URL as in `OTEL_EXPORTER_OTLP_ENDPOINT`."""
        return f"http://{self.host}"

    @property
    def requests(self) -> list[ExportTraceServiceRequest]:
        """The received requests, decoded."""
        return [ExportTraceServiceRequest.FromString(body) for body in self.bodies]

    @property
    def spans(self) -> list[Span]:
        """Every received span."""
        resources = [
            resource for request in self.requests for resource in request.resource_spans
        ]
        return [
            span
            for resource in resources
            for scope in resource.scope_spans
            for span in scope.spans
        ]

    async def serve(self) -> None:
        """Accept traces until it is stopped."""
        app = web.Application(client_max_size=64_000_000)
        app.router.add_post("/v1/traces", self._take)
        await serve_app(self, app)

    async def _take(self, request: web.Request) -> web.Response:
        assert request.content_type == PROTOBUF
        self.bodies.append(await request.read())
        if self.silent:
            await asyncio.sleep(3_600)
        return web.Response(
            body=ExportTraceServiceResponse().SerializeToString(), content_type=PROTOBUF
        )
