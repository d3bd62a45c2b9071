"""Sign-in with an OpenID provider, such as a Hugging Face Space with ``hf_oauth: true``.

The provider's four variables are the Space's own. Any provider with a discovery document will do. Nothing is asked
of it but who somebody is, and no token of theirs is kept.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import httpx
from starlette.applications import Starlette
from starlette.requests import HTTPConnection, Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from runtime.errors import InvalidSetting
from studio.errors import SignInFailed
from studio.routes.responses import handle_errors

NEEDED = ("OPENID_PROVIDER_URL", "OAUTH_CLIENT_ID", "OAUTH_CLIENT_SECRET")
SESSION_S = 30 * 86400
MEMBER = "member"


class SignIn:
    """Routes, and who has signed in. Thread: the event loop."""

    def __init__(self, env: Mapping[str, str], *, required: bool = False) -> None:
        """Read the OAuth settings.

        Raises:
            InvalidSetting: a variable or a library is missing.
        """
        try:
            from authlib.integrations.starlette_client import OAuth
        except ImportError:
            why = "signing in needs more libraries: pip install ./clients/python '.[oauth]'"
            raise InvalidSetting(name="OPENID_PROVIDER_URL", value="set", why=why) from None
        for name in NEEDED:
            if not env.get(name):
                raise InvalidSetting(name=name, value="empty", why="signing in needs it; set VOICEWRIGHT_SIGN_IN=off")
        self._required = required
        url, client, self._secret = (env[name] for name in NEEDED)
        self._host = env.get("SPACE_HOST", "")
        self._provider = OAuth().register(
            name="openid",
            client_id=client,
            client_secret=self._secret,
            client_kwargs={"scope": env.get("OAUTH_SCOPES") or "openid profile", "code_challenge_method": "S256"},
            server_metadata_url=f"{url.rstrip('/')}/.well-known/openid-configuration",
        )

    def add_to(self, app: Starlette) -> None:
        """Add the session, in a signed cookie of its own, and the routes."""
        from starlette.middleware.sessions import SessionMiddleware

        secret = hashlib.sha256(b"voicewright session " + self._secret.encode()).hexdigest()
        app.add_middleware(
            SessionMiddleware,
            secret_key=secret,
            session_cookie="voicewright_session",
            max_age=SESSION_S,
            same_site="none" if self._host else "lax",  # A Space is shown in a frame of another site.
            https_only=bool(self._host),
        )
        app.router.routes.extend(
            [
                Route("/studio/sign-in", handle_errors(self.begin), methods=["GET"]),
                Route("/studio/signed-in", handle_errors(self.come_back), methods=["GET"], name="signed_in"),
                Route("/studio/sign-out", handle_errors(self.leave), methods=["POST"]),
            ]
        )

    def member_of(self, connection: HTTPConnection) -> tuple[str, str] | None:
        """Id and name of who has signed in."""
        member = connection.session.get(MEMBER) if "session" in connection.scope else None
        return (member["id"], member["name"]) if member else None

    def feature(self) -> dict[str, Any]:
        """Return the sign-in state for the page."""
        return {"sign_in": "studio/sign-in", "sign_out": "studio/sign-out", "required": self._required}

    async def begin(self, request: Request) -> Response:
        """Send the browser to the provider."""
        back = f"https://{self._host}/studio/signed-in" if self._host else str(request.url_for("signed_in"))
        try:
            answer: Response = await self._provider.authorize_redirect(request, back)
        except Exception as error:  # An unavailable provider may raise anything.
            raise SignInFailed(why="the provider does not answer") from error
        return answer

    async def come_back(self, request: Request) -> Response:
        """Take the provider's word for who it is."""
        from authlib.common.errors import AuthlibBaseError
        from joserfc.errors import JoseError

        try:
            token: dict[str, Any] = await self._provider.authorize_access_token(request)
            told = token["userinfo"]
            member = {"id": str(told["sub"]), "name": str(told.get("preferred_username") or told.get("name") or "")}
        except (AuthlibBaseError, JoseError, httpx.HTTPError, KeyError) as error:
            request.session.clear()
            raise SignInFailed(why="the provider's answer does not fit the question; begin again") from error
        request.session.clear()  # The state of the sign-in request is no longer needed.
        request.session[MEMBER] = member
        return RedirectResponse("/", status_code=303)

    async def leave(self, request: Request) -> Response:
        """Forget who signed in; what they keep stays theirs."""
        request.session.clear()
        return RedirectResponse("/", status_code=303)
