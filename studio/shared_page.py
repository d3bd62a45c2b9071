"""Page of a shared take: plain HTML without scripts, which says that the speech is generated."""

from __future__ import annotations

from html import escape
from typing import Any

from studio.words import languages, words

_PAGE = """<!doctype html>
<html lang="{language}">
<head>
<meta charset="utf-8" />
<meta name="viewport" content="width=device-width, initial-scale=1" />
<meta name="robots" content="noindex, nofollow, noarchive" />
<meta name="referrer" content="no-referrer" />
<meta name="color-scheme" content="light dark" />
<title>{title}</title>
<link rel="stylesheet" href="../studio/css/faces.css" />
<link rel="stylesheet" href="../studio/css/shared.css" />
</head>
<body>
<main>
{content}
</main>
</body>
</html>
"""


def shared_page(record: dict[str, Any], token: str, accepted: str) -> str:
    """Return the page of a take. ``token`` is of the link, ``accepted`` the browser's languages."""
    language, said = _said(accepted)
    listen = escape(said["shared.listen"])
    content = (
        f"<h1>{escape(said['shared.title'])}</h1>\n"
        f'<blockquote dir="auto">{escape(record["text"])}</blockquote>\n'
        f'<audio controls preload="metadata" src="{escape(token)}/audio" aria-label="{listen}"></audio>\n'
        f"<p>{escape(said['shared.generated'])}</p>"
    )
    return _PAGE.format(language=language, title=escape(said["shared.title"]), content=content)


def ended(accepted: str) -> str:
    """The page where there is nothing, or nothing any more."""
    language, said = _said(accepted)
    content = f"<h1>{escape(said['shared.ended'])}</h1>\n<p>{escape(said['shared.ended_why'])}</p>"
    return _PAGE.format(language=language, title=escape(said["shared.ended"]), content=content)


def _said(accepted: str) -> tuple[str, dict[str, str]]:
    """Return the words of the first language that both know."""
    known = languages()
    wanted = [tag.split(";")[0].strip().lower().partition("-")[0] for tag in accepted[:200].split(",")]
    language = next((code for code in wanted if code in known), "en")
    return language, words("en") | words(language)
