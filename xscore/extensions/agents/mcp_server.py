"""`xscore mcp` on the official SDK, which speaks both eras of the protocol.

The SDK reads, answers, cancels and ends; here are the tools, the receipts of turns as resources,
and how a call runs. Judging calls run one at a time, since turns in one store would wait for each
other anyway; calls that only read never wait for them. Trade-off: the SDK serves no tasks, so a
call has to end before its client gives up.
"""

import asyncio
from collections.abc import Mapping
from contextlib import nullcontext
from importlib.metadata import version
from typing import Any, cast

import anyio
from mcp import types
from mcp.server.caching import CacheableMethod, CacheHint
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from xscore.extensions.agents.mcp_calls import Call, CallThread, ProgressQueue
from xscore.extensions.agents.mcp_stdio import ClientPipes, answer_file, read_lines
from xscore.extensions.agents.mcp_tools import (
    SERVER_INSTRUCTIONS,
    TEMPLATE,
    Tool,
    load_call_work,
    offered_tools,
)
from xscore.extensions.agents.mcp_workplace import Workplace
from xscore.platform.errors import NothingMatched, UsageError, XscoreError
from xscore.platform.text import join_sentences

RESOURCE_NOT_FOUND = -32002
"""Error code before the protocol of 2026-07-28; since then it is INVALID_PARAMS."""
LIST_KEEPS_MS = 3_600_000
"""How long clients may cache the lists: they are the same for everyone until the program is
updated."""
_LISTS: tuple[CacheableMethod, ...] = (
    "tools/list",
    "resources/list",
    "resources/templates/list",
    "server/discover",
)

Context = ServerRequestContext[Any, Any]


class McpServer:
    """Serves one client until it leaves."""

    def __init__(self, place: Workplace, *, everything: bool) -> None:
        """everything: offer all tools, not just `context`."""
        self._place = place
        self._tools = offered_tools(everything=everything)
        self._judging = asyncio.Lock()
        self._server: Server[Any] = Server(
            "xscore",
            title="xscore",
            version=version("xscore"),
            instructions=SERVER_INSTRUCTIONS,
            cache_hints=dict.fromkeys(_LISTS, CacheHint(LIST_KEEPS_MS, "public")),
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            on_list_resources=self._list_resources,
            on_list_resource_templates=self._list_templates,
            on_read_resource=self._read_resource,
        )
        # The SDK's own traces: what leaves the machine is decided by `telemetry.otel` alone.
        self._server.middleware.clear()

    async def serve(self, pipes: ClientPipes) -> None:
        """Serve until the client leaves, or this is cancelled; calls in flight are cancelled
        then."""
        # The SDK only iterates over it.
        lines = cast(anyio.AsyncFile[str], read_lines(pipes.in_fd))
        out = anyio.wrap_file(answer_file(pipes.out_fd))
        try:
            async with stdio_server(lines, out) as (received, answers):
                options = self._server.create_initialization_options()
                await self._server.run(received, answers, options)
        except* (BrokenPipeError, anyio.BrokenResourceError):
            pass  # the client no longer reads

    async def _list_tools(self, _context: Context, _params: object) -> types.ListToolsResult:
        listed = [tool.listed() for tool in self._tools.values()]
        return types.ListToolsResult.model_validate({"tools": listed})

    async def _list_resources(
        self, _context: Context, _params: object
    ) -> types.ListResourcesResult:
        return types.ListResourcesResult(resources=[])

    async def _list_templates(
        self, _context: Context, _params: object
    ) -> types.ListResourceTemplatesResult:
        return types.ListResourceTemplatesResult.model_validate(
            {"resourceTemplates": [TEMPLATE]}
        )

    async def _call_tool(
        self, context: Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        tool = self._tools.get(params.name)
        if tool is None:
            names = ", ".join(self._tools)
            raise MCPError(types.INVALID_PARAMS, f"There is no such tool. Known: {names}.")
        try:
            result = await self._run(tool, params.arguments, context)
        except XscoreError as error:
            result = load_call_work().failure_result(error)
        return types.CallToolResult.model_validate(result)

    async def _run(
        self, tool: Tool, arguments: Mapping[str, Any] | None, context: Context
    ) -> dict[str, Any]:
        """Do a call, and send its progress before its result."""
        progress = ProgressQueue(context.session.report_progress)
        wants_progress = bool(context.meta) and "progress_token" in (context.meta or {})
        call = Call(wants_progress=wants_progress, report=progress.put)
        sending = asyncio.create_task(progress.send_all(call))
        try:
            async with self._judging if tool.is_long else nullcontext():
                result = await CallThread(call, tool.work(self._place, arguments)).run()
            progress.close()
            await sending
        finally:
            sending.cancel()
        return result

    async def _read_resource(
        self, context: Context, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        async def read(_call: Call) -> dict[str, Any]:
            return load_call_work().read_receipt(self._place, str(params.uri))

        call = Call(wants_progress=False, report=lambda *_: None)
        try:
            contents = await CallThread(call, read).run()
        except XscoreError as error:
            code = types.INTERNAL_ERROR
            if isinstance(error, NothingMatched | UsageError):
                is_modern = context.protocol_version in MODERN_PROTOCOL_VERSIONS
                code = types.INVALID_PARAMS if is_modern else RESOURCE_NOT_FOUND
            raise MCPError(code, join_sentences(error.message, error.hint)) from error
        return types.ReadResourceResult.model_validate(contents)
