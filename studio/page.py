"""The page as Gradio serves it: one HTML component, whose markup and modules lie in assets/.

Gradio carries the page; live sound goes from the socket to the audio thread and never through its events.
A room is a file of the same name in assets/html/rooms, js/rooms and css/rooms, and its words in i18n.
"""

from __future__ import annotations

from pathlib import Path

import gradio as gr

from studio.speaking import Speaker
from studio.supervisor import Runtime

ASSETS = Path(__file__).resolve().parent.parent / "assets"
ROOMS = ("speakers", "design", "clone", "script", "library", "host")

MOUNT = "import(new URL('studio/js/studio.js', document.baseURI)).then((m) => m.mount(element));"


def head() -> str:
    """What stands in the page's <head>: the style of the shell, then of the rooms that have one."""
    sheets = ["studio.css", *(f"rooms/{room}.css" for room in ROOMS if (ASSETS / "css/rooms" / f"{room}.css").exists())]
    return "\n".join(
        (
            '<meta name="viewport" content="width=device-width, initial-scale=1" />',
            '<meta name="color-scheme" content="light dark" />',
            *(f'<link rel="stylesheet" href="studio/css/{sheet}" />' for sheet in sheets),
            '<link rel="modulepreload" href="studio/js/studio.js" />',
        )
    )


def theme() -> gr.themes.Base:
    """Gradio's plainest theme on the system's fonts: nothing is fetched from elsewhere."""
    return gr.themes.Base(font=["system-ui", "sans-serif"], font_mono=["ui-monospace", "monospace"])


def blocks(runtime: Runtime) -> gr.Blocks:
    """Compose the page, and the API beside it."""
    with gr.Blocks(title="Voicewright", fill_width=True, analytics_enabled=False, delete_cache=(3600, 86400)) as page:
        gr.HTML(html_template=markup(), js_on_load=MOUNT, apply_default_css=False)
        # How many may speak at once is the runtime's to say.
        gr.api(Speaker(runtime).speak, api_name="speak", concurrency_limit=None)
    return page


def markup() -> str:
    """The shell with every room in it, all but hidden until one is entered."""
    return _read("studio").replace("@rooms", "\n".join(_panel(room) for room in ROOMS))


def _panel(room: str) -> str:
    attributes = f'class="vw-room" id="vw-room-{room}" role="tabpanel" aria-labelledby="vw-tab-{room}"'
    return f"<section {attributes} hidden>\n{_read(f'rooms/{room}')}</section>"


def _read(name: str) -> str:
    return (ASSETS / "html" / f"{name}.html").read_text("utf-8")
