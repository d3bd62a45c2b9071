"""Actions as functions of Gradio's API, for gradio_client and plain HTTP.

Files are returned in the format of Gradio's components. gradio_client downloads a file and returns its local path.
Over plain HTTP, the response has the `url` of the file. Gradio deletes files after a day (studio/page/app.py).
"""

from __future__ import annotations

import asyncio
import base64
import inspect
import mimetypes
from typing import Any

import gradio as gr
from gradio.data_classes import FileData
from gradio.processing_utils import save_bytes_to_cache
from gradio.utils import get_upload_folder
from starlette.types import ASGIApp

from studio.actions.asking import ActionRefused, StudioClient
from studio.actions.offering import ACTIONS, Action, copy_signature

CALLER = inspect.Parameter("request", inspect.Parameter.POSITIONAL_OR_KEYWORD, default=None, annotation=gr.Request)


def offer(app: ASGIApp) -> None:
    """Add every action to the current Gradio Blocks.

    Args:
        app: ASGI application of the studio, whose routes the actions call.
    """
    for action in ACTIONS:
        # The runtime limits concurrent speech requests, so Gradio does not need a limit.
        gr.api(_function(app, action), api_name=action.__name__, concurrency_limit=None)


def _function(app: ASGIApp, action: Action) -> Action:
    async def call(*given: Any, request: gr.Request | None = None, **named: Any) -> Any:
        *arguments, caller = [*given, request] if request is not None or not given else given
        try:
            studio = (
                StudioClient(app, caller.headers, caller.client.host)
                if isinstance(caller, gr.Request)
                else StudioClient(app, {})
            )
            return await asyncio.to_thread(_with_files, await action(studio, *arguments, **named))
        except ActionRefused as refusal:
            raise gr.Error(refusal.message, title=refusal.code, print_exception=False) from None

    return copy_signature(call, action, CALLER)


def _with_files(result: Any) -> Any:
    """Replace base64 data in a value with files (takes a few milliseconds)."""
    if isinstance(result, list):
        return [_with_files(item) for item in result]
    if not isinstance(result, dict):
        return result
    if set(result) == {"media_type", "data"}:
        return _file(result["data"], result["media_type"].partition(";")[0])
    return {name: _file(value, "audio/wav") if name == "wav" else _with_files(value) for name, value in result.items()}


def _file(data: str, media_type: str) -> dict[str, Any]:
    name = f"voicewright{mimetypes.guess_extension(media_type) or ''}"
    path = save_bytes_to_cache(base64.b64decode(data), name, get_upload_folder())
    result: dict[str, Any] = FileData(path=path, orig_name=name, mime_type=media_type).model_dump()
    return result
