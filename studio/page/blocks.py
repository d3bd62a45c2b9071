"""Gradio's part of the studio: its API.

The page itself is in the document (studio/page/template.py).
"""

from __future__ import annotations

import gradio as gr
from starlette.types import ASGIApp

from studio.actions import gradio_api


def theme() -> gr.themes.Base:
    """Return Gradio's plainest theme with system fonts.

    Nothing is fetched from other servers.
    """
    return gr.themes.Base(font=["system-ui", "sans-serif"], font_mono=["ui-monospace", "monospace"])


def blocks(studio: ASGIApp) -> gr.Blocks:
    """Build the functions of Gradio's API, which call the studio's own routes."""
    with gr.Blocks(title="Voicewright", fill_width=True, analytics_enabled=False, delete_cache=(3600, 86400)) as page:
        gr.HTML(js_on_load="dispatchEvent(new Event('vw-gradio'))")
        gradio_api.offer(studio)
    return page
