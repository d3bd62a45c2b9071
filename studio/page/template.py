"""HTML template of the page: Gradio's template with the studio's changes.

The template contains the page's own markup, styles and modules. Therefore, the page does not wait for Gradio's scripts,
which take many seconds on a slow connection. Gradio starts when the page is usable. The template also has tags for link
previews, sets the CSP nonce of scripts, and shows the product's name until the page is ready. The studio compresses the
document because Gradio compresses only its own files.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from gradio.routes import templates
from jinja2 import BaseLoader, Environment
from starlette.middleware.gzip import GZipMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

from studio.page.bundle import ASSETS, ROOMS
from studio.words import languages, words

TEMPLATE = "frontend/index.html"
DESCRIPTION = "Voices by description, by recording, by name: an interactive voice studio for Qwen3-TTS."
_TAGS = re.compile(r"""<meta\s+(?:property="og:|name="twitter:)[^>]*>\s*""")
# Requests of the page's modules, which the browser sends before the modules have arrived.
_FIRST = ("studio/bundle/presets.json", "studio/bundle/en.json", "studio/me", "studio/pronunciation", "v1/models")
# Head of the page. The base URL comes from the request, because the studio's public host name is unknown.
_HEAD = f"""<title>Voicewright</title>
<meta name="description" content="{DESCRIPTION}" />
<meta property="og:title" content="Voicewright" />
<meta property="og:site_name" content="Voicewright" />
<meta property="og:type" content="website" />
<meta property="og:url" content="{{{{ request.base_url }}}}" />
<meta property="og:description" content="{DESCRIPTION}" />
<meta name="twitter:card" content="summary" />
<meta name="twitter:title" content="Voicewright" />
<meta name="twitter:description" content="{DESCRIPTION}" />
<meta name="color-scheme" content="light dark" />
<link rel="modulepreload" href="studio/bundle/page.js" />
<link rel="preload" as="style" href="studio/bundle/page.css" />
""" + "".join(f'<link rel="preload" as="fetch" crossorigin href="{path}" />\n' for path in _FIRST)
# Body of the page, which is hidden until it is mounted and its styles and fonts have loaded or failed. This avoids
# layout shifts. Fonts load after the modules, and the page waits at most 1.2 s for them. On a slow connection, it is
# usable more than a second before all fonts have loaded, and their arrival hardly shifts the layout.
_BODY = """<style>
#vw-arriving {{
  position: fixed; z-index: 9; inset: 0; padding: 1.125rem max(1.625rem, 50vw - 32.5rem);
  background: #faf8f5; color: #1f1c18; font: 1.625rem/1.25 "Source Serif 4", Georgia, serif;
}}
#vw-arriving small {{ display: block; font: 0.8125rem/1.2 "Source Sans 3", system-ui, sans-serif; }}
@media (prefers-color-scheme: dark) {{ #vw-arriving {{ background: #171513; color: #ece6de; }} }}
</style>
{{% set tag = request.headers.get("accept-language", "")[:2].lower() %}}{{% set subtitles = {subtitles} %}}
{{% set language = tag if tag in subtitles else "en" %}}
<div id="vw-arriving" role="status" lang="{{{{ language }}}}">
Voicewright <small>{{{{ subtitles[language] }}}}</small>
</div>
<link rel="stylesheet" href="studio/bundle/page.css" />
<style id="vw-faces" media="not all">{faces}</style>
<main id="vw-page">{{% raw %}}{markup}{{% endraw %}}</main>
<script nonce="{{{{ request.state.nonce }}}}" type="module">
import {{ mount }} from './studio/bundle/page.js';
document.getElementById('vw-faces').media = 'all';
const typefaces = ['1rem "Source Sans 3"', '1rem "Source Serif 4"'];
const set = Promise.allSettled(typefaces.map((face) => document.fonts.load(face)));
const late = new Promise((done) => setTimeout(done, 1200));
const mounted = mount(document.getElementById('vw-page'));
await Promise.allSettled([mounted, Promise.race([set, late])]);
document.getElementById('vw-arriving').remove();
document.getElementById('vw').style.removeProperty('visibility');
await (await mounted).usable;
// The page does not need Gradio's scripts, so a network fault while they load is not an error. Vite throws unless its
// event is prevented, and Gradio then fails at the missing module.
addEventListener('vite:preloadError', (event) => event.preventDefault());
addEventListener('unhandledrejection', (event) => {{
  if (event.reason?.stack?.includes('/assets/')) event.preventDefault();
}});
document.head.append(document.getElementById('vw-gradio').content);
</script>
<template id="vw-gradio">{gradio}</template>
"""
_GRADIO = re.compile(r"""<(?:script|link)\b[^>]*\b(?:src|href)="\./assets/[^>]*>(?:</script>)?""")


def replace() -> None:
    """Make Gradio serve the studio's page template instead of its own template.

    A repeated call has no effect.
    """
    environment = templates.env
    if environment.loader is None or isinstance(environment.loader, _StudioLoader):
        return
    environment.loader = _StudioLoader(environment.loader)
    if environment.cache is not None:
        environment.cache.clear()


@dataclass(frozen=True)
class _StudioLoader(BaseLoader):
    """Jinja loader that changes the page's template and passes on Gradio's other templates."""

    theirs: BaseLoader

    def get_source(self, environment: Environment, template: str) -> tuple[str, str | None, Callable[[], bool] | None]:
        source, path, is_fresh = self.theirs.get_source(environment, template)
        if template == TEMPLATE:
            source = source.replace("<script", '<script nonce="{{ request.state.nonce }}"')
            gradio = "".join(_GRADIO.findall(source))
            source = _TAGS.sub("", _GRADIO.sub("", source)).replace("<head>", f"<head>\n{_HEAD}", 1)
            source = source.replace("<gradio-app", f"{_body(gradio)}<gradio-app", 1)
        return source, path, is_fresh


def _body(gradio: str) -> str:
    """Return the HTML body of the page.

    Args:
        gradio: HTML tags that start Gradio.
    """
    subtitles = {language: words(language)["shell.about_this"] for language in languages()}
    faces = (ASSETS / "css" / "faces.css").read_text("utf-8").replace("../fonts/", "studio/fonts/")
    return _BODY.format(subtitles=subtitles, faces=faces, markup=markup(), gradio=gradio)


def markup() -> str:
    """Return the HTML of the page's frame and of all its tabs.

    A tab is hidden until the user opens it.
    """
    return _read("studio").replace("@rooms", "\n".join(_panel(room) for room in ROOMS))


def _panel(room: str) -> str:
    attributes = f'class="vw-room" id="vw-room-{room}" role="tabpanel" aria-labelledby="vw-tab-{room}"'
    return f"<section {attributes} hidden>\n{_read(f'rooms/{room}')}</section>"


def _read(name: str) -> str:
    return (ASSETS / "html" / f"{name}.html").read_text("utf-8")


class CompressedTemplate:
    """ASGI middleware that compresses the HTML document of the page.

    The size is reduced from 150 kB to about 21 kB.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        # Compression at level 4 blocks the event loop for 2 ms.
        self._compressed = GZipMiddleware(app, compresslevel=4)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Process a request, and compress the response if it is the HTML document of the page."""
        is_document = scope["type"] == "http" and scope["path"] == "/"
        await (self._compressed if is_document else self._app)(scope, receive, send)
