"""Actions as MCP tools, at the path /mcp on the studio's port (docs/mcp.md).

Tool results are JSON text for a language model, and include the URL of the audio. Tools for one audio file return an
MCP audio object.
"""

from __future__ import annotations

import inspect
import json
from typing import Any

from mcp.server.fastmcp import Context, FastMCP
from mcp.server.fastmcp.exceptions import ToolError
from mcp.server.transport_security import TransportSecuritySettings
from mcp.types import (
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    EmbeddedResource,
    TextContent,
    ToolAnnotations,
)
from pydantic import AnyUrl, ValidationError
from starlette.requests import Request
from starlette.types import ASGIApp

from runtime.errors import InvalidConfig, SpeechError
from runtime.shared.validation import first_fault
from studio.actions.asking import ActionRefused, StudioClient
from studio.actions.offering import ACTIONS, Action, argument_descriptions, copy_signature
from studio.visitors.visitors import is_https

PATH = "/mcp"
ABOUT = (
    "A voice studio: speak texts, design voices from words, keep a designed voice, clone voices with consent, speak "
    "scripts. Takes are kept in a history; their addresses play in a browser."
)
READS = {"list_takes", "list_voices", "take_audio", "take_words", "export"}
CALLER = inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY, annotation=Context)


class _Tools(FastMCP):
    """MCP server that reports every error (even an invalid argument) as a message and a code."""

    async def call_tool(self, name: str, arguments: dict[str, Any]) -> Any:
        tool = self._tool_manager.get_tool(name)
        if tool is None:
            known = ", ".join(action.__name__ for action in ACTIONS)
            return _refusal(ActionRefused(f"There is no tool of that name; there are: {known}.", "unknown_tool"))
        if set(arguments) - set(known := tool.parameters["properties"]):
            return _refusal(InvalidConfig(where="An argument", why=f"{name} takes only {', '.join(known)}"))
        try:
            return await super().call_tool(name, arguments)
        except ToolError as error:
            if not isinstance(error.__cause__, ValidationError):
                raise
            where, why = first_fault(error.__cause__, arguments)
            return _refusal(InvalidConfig(where=where or "The call", why=why))


def tools(app: ASGIApp) -> FastMCP:
    """Return an MCP server that has one tool per action.

    Args:
        app: ASGI application of the studio, whose routes the tools call.
    """
    # The check of FastMCP is disabled, because the studio's own middleware compares the Origin header with the Host
    # header.
    security = TransportSecuritySettings(enable_dns_rebinding_protection=False)
    server = _Tools(
        "Voicewright", instructions=ABOUT, stateless_http=True, streamable_http_path=PATH, transport_security=security
    )
    for action in ACTIONS:
        name = action.__name__
        marks = ToolAnnotations(readOnlyHint=name in READS, destructiveHint=name == "delete_voice", openWorldHint=False)
        about = (action.__doc__ or "").partition("Args:")[0].strip()
        server.add_tool(_tool(app, action), description=about, annotations=marks)
        added = server._tool_manager.get_tool(name)
        assert added is not None
        properties = added.parameters["properties"]
        for argument, text in argument_descriptions(action).items():
            properties[argument]["description"] = text
    return server


def _tool(app: ASGIApp, action: Action) -> Action:
    async def call(*, context: Context[Any, Any, Any], **arguments: Any) -> CallToolResult:
        request = context.request_context.request
        assert isinstance(request, Request)  # MCP is only available over HTTP.
        try:
            address = request.client.host if request.client else ""
            outcome = await action(StudioClient(app, request.headers, address), **arguments)
        except ActionRefused as refusal:
            return _refusal(refusal)
        return _result(outcome, request)

    return copy_signature(call, action, CALLER, CallToolResult)


def _refusal(refusal: ActionRefused | SpeechError) -> CallToolResult:
    content = TextContent(type="text", text=f"{refusal} [{refusal.code}]")
    return CallToolResult(content=[content], isError=True)


def _result(outcome: Any, request: Request) -> CallToolResult:
    if isinstance(outcome, dict) and set(outcome) == {"media_type", "data"}:
        return CallToolResult(content=[_file(outcome["media_type"].partition(";")[0], outcome["data"])])
    lean = _without_sound(outcome, _address(request))
    value = lean if isinstance(lean, dict) else {"result": lean}
    text = TextContent(type="text", text=json.dumps(lean, ensure_ascii=False))
    return CallToolResult(content=[text], structuredContent=value)


def _file(media_type: str, data: str) -> AudioContent | EmbeddedResource:
    if media_type.startswith("audio/"):
        return AudioContent(type="audio", data=data, mimeType=media_type)
    blob = BlobResourceContents(uri=AnyUrl("voicewright://export"), mimeType=media_type, blob=data)
    return EmbeddedResource(type="resource", resource=blob)


def _without_sound(outcome: Any, address: str) -> Any:
    """Remove base64 WAV data from a result and make its audio URLs absolute."""
    if isinstance(outcome, list):
        return [_without_sound(item, address) for item in outcome]
    if not isinstance(outcome, dict):
        return outcome
    lean = {name: _without_sound(value, address) for name, value in outcome.items() if name != "wav"}
    if isinstance(lean.get("audio"), str):
        lean["audio"] = f"{address}/{lean['audio']}"
    return lean


def _address(request: Request) -> str:
    scheme = "https" if is_https(request.scope, request.headers) else "http"
    return f"{scheme}://{request.headers.get('host', 'localhost')}"
