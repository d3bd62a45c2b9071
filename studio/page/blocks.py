"""Page in Gradio: one HTML component, with markup and modules in assets/.

Gradio serves the page, but live audio does not use Gradio's events: it is sent from the WebSocket to the audio thread.
A room has a file of its name in assets/html/rooms and css/rooms, a folder in js, and its texts in i18n.
"""

from __future__ import annotations

import gradio as gr
from starlette.types import ASGIApp

from studio.actions import gradio_api
from studio.page.bundle import ASSETS, ROOMS

# The page is shown when its styles and fonts have loaded or failed and its features are known. Gradio adds the links of
# the head by script, so that they do not block rendering. On a slow machine, the page would first appear without
# styles, and its elements would then move. Until the page is shown, the template shows the product's name.
MOUNT = """
const links = [...document.querySelectorAll('link[rel=stylesheet][href^="studio/bundle/"]')];
const sheets = links.filter((link) => !link.sheet);
const styled = Promise.all(sheets.map((link) => new Promise((done) => { link.onload = link.onerror = done; })));
const typefaces = ['1rem "Source Sans 3"', '1rem "Source Serif 4"'];
const set = styled.then(() => Promise.allSettled(typefaces.map((face) => document.fonts.load(face))));
const late = new Promise((done) => setTimeout(done, 5000));
const mounted = import(new URL('studio/bundle/page.js', document.baseURI)).then((m) => m.mount(element));
const composed = new Promise((done) => { mounted.finally(done); });
Promise.all([Promise.race([set, late]), composed]).then(() => {
  document.getElementById('vw-arriving')?.remove();
  element.querySelector('#vw').style.removeProperty('visibility');
});
"""


def head() -> str:
    """Return the elements that the page adds to <head>: styles and fonts. Scripts are in the template."""
    fonts = sorted((ASSETS / "fonts").glob("*.woff2"))
    return "\n".join(
        (
            '<meta name="viewport" content="width=device-width, initial-scale=1" />',
            '<meta name="color-scheme" content="light dark" />',
            '<link rel="stylesheet" href="studio/bundle/page.css" />',
            *(
                f'<link rel="preload" as="font" type="font/woff2" crossorigin href="studio/fonts/{path.name}" />'
                for path in fonts
            ),
        )
    )


def theme() -> gr.themes.Base:
    """Return Gradio's plainest theme with system fonts, so that nothing is fetched from other servers."""
    return gr.themes.Base(font=["system-ui", "sans-serif"], font_mono=["ui-monospace", "monospace"])


def blocks(studio: ASGIApp) -> gr.Blocks:
    """Build the page, and the functions of Gradio's API, which call the studio's own routes."""
    with gr.Blocks(title="Voicewright", fill_width=True, analytics_enabled=False, delete_cache=(3600, 86400)) as page:
        gr.HTML(html_template=markup(), js_on_load=MOUNT, apply_default_css=False)
        gradio_api.offer(studio)
    return page


def markup() -> str:
    """Return the markup of the shell with all rooms, which are hidden until one is opened."""
    return _read("studio").replace("@rooms", "\n".join(_panel(room) for room in ROOMS))


def _panel(room: str) -> str:
    attributes = f'class="vw-room" id="vw-room-{room}" role="tabpanel" aria-labelledby="vw-tab-{room}"'
    return f"<section {attributes} hidden>\n{_read(f'rooms/{room}')}</section>"


def _read(name: str) -> str:
    return (ASSETS / "html" / f"{name}.html").read_text("utf-8")
