"""Gradio's page template with changes of the studio.

It adds preview tags, preloads the page's modules, and sets the nonce of the scripts.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from gradio.routes import templates
from jinja2 import BaseLoader, Environment

TEMPLATE = "frontend/index.html"
DESCRIPTION = "Voices by description, by recording, by name: an interactive voice studio for Qwen3-TTS."
_TAGS = re.compile(r"""<meta\s+(?:property="og:|name="twitter:)[^>]*>\s*""")
# The URL is the request's, because the studio does not know its public name.
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
<link rel="modulepreload" href="studio/bundle/page.js" />
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
        return source, path, is_fresh
