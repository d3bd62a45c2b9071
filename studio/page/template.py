"""Gradio's page template with changes of the studio.

It adds preview tags, starts the page's modules, shows the page's name until they have mounted it, and sets the nonce of
the scripts. The result is compressed, because Gradio compresses only its files.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from gradio.routes import templates
from jinja2 import BaseLoader, Environment
from starlette.middleware.gzip import GZipMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

TEMPLATE = "frontend/index.html"
DESCRIPTION = "Voices by description, by recording, by name: an interactive voice studio for Qwen3-TTS."
_TAGS = re.compile(r"""<meta\s+(?:property="og:|name="twitter:)[^>]*>\s*""")
# The URL is taken from the request, because the studio does not know its public name.
_OURS = f"""<title>Voicewright</title>
<meta name="description" content="{DESCRIPTION}" />
<meta property="og:title" content="Voicewright" />
<meta property="og:site_name" content="Voicewright" />
<meta property="og:type" content="website" />
<meta property="og:url" content="{{{{ request.base_url }}}}" />
<meta property="og:description" content="{DESCRIPTION}" />
<meta name="twitter:card" content="summary" />
<meta name="twitter:title" content="Voicewright" />
<meta name="twitter:description" content="{DESCRIPTION}" />
<link rel="preload" as="style" href="studio/bundle/page.css" />
<script nonce="{{{{ request.state.nonce }}}}" type="module" src="studio/bundle/page.js"></script>
"""
# On a slow line, Gradio takes seconds to load. Its own progress display would appear only for a moment.
_ARRIVING = """<style>
#vw-arriving {
  position: fixed; z-index: 9; inset: 0; padding: 1.125rem max(1.625rem, 50vw - 32.5rem);
  background: #faf8f5; color: #1f1c18; font: 1.625rem/1.25 "Source Serif 4", Georgia, serif;
}
#vw-arriving small { display: block; font: 0.8125rem/1.2 "Source Sans 3", system-ui, sans-serif; }
@media (prefers-color-scheme: dark) { #vw-arriving { background: #171513; color: #ece6de; } }
</style>
<div id="vw-arriving" role="status">Voicewright <small>Open text-to-speech studio</small></div>
"""


def replace() -> None:
    """Make Gradio serve the studio's template. Later calls do nothing."""
    environment = templates.env
    if environment.loader is None or isinstance(environment.loader, _StudioLoader):
        return
    environment.loader = _StudioLoader(environment.loader)
    if environment.cache is not None:
        environment.cache.clear()


@dataclass(frozen=True)
class _StudioLoader(BaseLoader):
    """Loader of Gradio's templates that changes the page's template."""

    theirs: BaseLoader

    def get_source(self, environment: Environment, template: str) -> tuple[str, str | None, Callable[[], bool] | None]:
        source, path, is_fresh = self.theirs.get_source(environment, template)
        if template == TEMPLATE:
            source = source.replace("<script", '<script nonce="{{ request.state.nonce }}"')
            source = _TAGS.sub("", source).replace("<head>", f"<head>\n{_OURS}", 1)
            source = source.replace("<gradio-app", f"{_ARRIVING}<gradio-app", 1)
        return source, path, is_fresh


class CompressedTemplate:
    """ASGI middleware that compresses the page's document, 150 kB, to a seventh."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._compressed = GZipMiddleware(app, compresslevel=4)  # Level 4 takes 2 ms of the event loop.

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Compress the response to a GET of /."""
        is_document = scope["type"] == "http" and scope["path"] == "/"
        await (self._compressed if is_document else self._app)(scope, receive, send)
