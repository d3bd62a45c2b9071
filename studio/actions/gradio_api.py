"""Offers the actions as functions of Gradio's API, for gradio_client and plain HTTP."""

from __future__ import annotations

import inspect
from typing import Any

import gradio as gr
from starlette.types import ASGIApp

from studio.actions.asking import ActionRefused, Asking
from studio.actions.offering import ACTIONS, Action, shaped

CALLER = inspect.Parameter("request", inspect.Parameter.POSITIONAL_OR_KEYWORD, default=None, annotation=gr.Request)


def offer(app: ASGIApp) -> None:
    """Add every action to the Blocks that are being composed; ``app`` is the studio, whose routes they ask."""
    for action in ACTIONS:
        # How many may speak at once is the runtime's to say.
        gr.api(_function(app, action), api_name=action.__name__, concurrency_limit=None)


def _function(app: ASGIApp, action: Action) -> Action:
    async def call(*given: Any, request: gr.Request | None = None, **named: Any) -> Any:
        *arguments, caller = [*given, request] if request is not None or not given else given
        try:
            studio = (
                Asking(app, caller.headers, caller.client.host) if isinstance(caller, gr.Request) else Asking(app, {})
            )
            return await action(studio, *arguments, **named)
        except ActionRefused as refusal:
            raise gr.Error(refusal.message, title=refusal.code, print_exception=False) from None

    return shaped(call, action, CALLER)
