"""Gradio Blocks with the functions of the studio's Gradio API.

The HTML of the web page does not come from Gradio (see studio/page/template.py).
"""

from __future__ import annotations

import gradio as gr
from starlette.types import ASGIApp

from studio.actions import gradio_api


def theme() -> gr.themes.Base:
    """Return Gradio's base theme with system fonts, so that no fonts are downloaded."""
    return gr.themes.Base(font=["system-ui", "sans-serif"], font_mono=["ui-monospace", "monospace"])


def blocks(studio: ASGIApp) -> gr.Blocks:
    """Create the Gradio Blocks whose API functions call the studio's own HTTP routes."""
    with gr.Blocks(title="Voicewright", fill_width=True, analytics_enabled=False, delete_cache=(3600, 86400)) as page:
        gr.HTML(js_on_load="dispatchEvent(new Event('vw-gradio'))")
        gradio_api.offer(studio)
    return page
