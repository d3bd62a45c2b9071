"""The page as Gradio serves it: one HTML component, whose markup and modules lie in assets/.

Gradio carries the page; live sound goes from the socket to the audio thread and never through its events.
"""

from __future__ import annotations

from pathlib import Path

import gradio as gr

from studio.speaking import Speaker
from studio.supervisor import Runtime

ASSETS = Path(__file__).resolve().parent.parent / "assets"
ROOMS = ("custom_voice", "voice_design", "base")

HEAD = """
<meta name="viewport" content="width=device-width, initial-scale=1" />
<meta name="color-scheme" content="light dark" />
<link rel="stylesheet" href="studio/css/studio.css" />
<link rel="modulepreload" href="studio/js/studio.js" />
"""
MOUNT = "import(new URL('studio/js/studio.js', document.baseURI)).then((m) => m.mount(element));"


def theme() -> gr.themes.Base:
    """Gradio's plainest theme on the system's fonts: nothing is fetched from elsewhere."""
    return gr.themes.Base(font=["system-ui", "sans-serif"], font_mono=["ui-monospace", "monospace"])


def blocks(runtime: Runtime) -> gr.Blocks:
    """Compose the page, and the API beside it."""
    with gr.Blocks(title="Voicewright", fill_width=True, analytics_enabled=False, delete_cache=(3600, 86400)) as page:
        gr.HTML(html_template=_markup(), js_on_load=MOUNT, apply_default_css=False)
        # How many may speak at once is the runtime's to say.
        gr.api(Speaker(runtime).speak, api_name="speak", concurrency_limit=None)
    return page


def _markup() -> str:
    rooms = "\n".join(_read(room) for room in ROOMS)
    return _read("studio").replace("@rooms", rooms)


def _read(name: str) -> str:
    return (ASSETS / "html" / f"{name}.html").read_text("utf-8")
