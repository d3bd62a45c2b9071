"""Sign-in with an OpenID provider, for example on a Space with ``hf_oauth: true``.

The environment variables are those of a Hugging Face Space. Any provider with a discovery document is supported. The
studio only requests the user's identity and stores no token.
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
    """Routes for sign-in at an OpenID provider, and lookup of the signed-in user.

    Thread: event loop.
    """

    def __init__(self, env: Mapping[str, str], *, required: bool = False) -> None:
        """Read the OAuth settings from environment variables.

        Raises:
            InvalidSetting: A variable or a library is missing.
        """
        try:
            from authlib.integrations.starlette_client import OAuth
        except ImportError:
            why = "signing in needs more libraries: pip install ./clients/python '.[oauth]'"
            raise InvalidSetting(name="OPENID_PROVIDER_URL", value="set", why=why) from None
        for name in NEEDED:
            if not env.get(name):
                raise InvalidSetting(
                    name=name, value="empty", why="sign-in requires it; to disable sign-in, set VOICEWRIGHT_SIGN_IN=off"
                )
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
        """Add the sign-in routes and a session middleware to an application.

        The session has its own signed cookie.
        """
        from starlette.middleware.sessions import SessionMiddleware

        secret = hashlib.sha256(b"voicewright session " + self._secret.encode()).hexdigest()
        app.add_middleware(
            SessionMiddleware,
            secret_key=secret,
            session_cookie="voicewright_session",
            max_age=SESSION_S,
            same_site="none" if self._host else "lax",  # Other sites embed a Hugging Face Space in a frame.
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
        """Return the id and the name of the signed-in user, or None."""
        member = connection.session.get(MEMBER) if "session" in connection.scope else None
        return (member["id"], member["name"]) if member else None

    def feature(self) -> dict[str, Any]:
        """Return the data about sign-in that the page needs.

        The data has the URLs for sign-in and sign-out, and True if sign-in is required.
        """
        return {"sign_in": "studio/sign-in", "sign_out": "studio/sign-out", "required": self._required}

    async def begin(self, request: Request) -> Response:
        """Start a sign-in: redirect the browser to the OpenID provider."""
        back = f"https://{self._host}/studio/signed-in" if self._host else str(request.url_for("signed_in"))
        try:
            answer: Response = await self._provider.authorize_redirect(request, back)
        except Exception as error:  # If the provider is unavailable, any exception may be raised.
            raise SignInFailed(why="the provider does not respond") from error
        return answer

    async def come_back(self, request: Request) -> Response:
        """Complete a sign-in after the OpenID provider has redirected the browser to the studio."""
        from authlib.common.errors import AuthlibBaseError
        from joserfc.errors import JoseError

        try:
            token: dict[str, Any] = await self._provider.authorize_access_token(request)
            profile = token["userinfo"]
            member = {
                "id": str(profile["sub"]),
                "name": str(profile.get("preferred_username") or profile.get("name") or ""),
            }
        except (AuthlibBaseError, JoseError, httpx.HTTPError, KeyError) as error:
            request.session.clear()
            raise SignInFailed(why="the provider's response does not match the request; start again") from error
        request.session.clear()  # The data of the sign-in process is no longer needed.
        request.session[MEMBER] = member
        return RedirectResponse("/", status_code=303)

    async def leave(self, request: Request) -> Response:
        """Sign the user out.

        The user's stored data is not deleted.
        """
        request.session.clear()
        return RedirectResponse("/", status_code=303)
