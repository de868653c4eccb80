"""The console as an application for a web server: who asks, what they may, and headers that keep browsers safe."""

from __future__ import annotations

import json
import logging
import mimetypes
import secrets
from collections.abc import Mapping
from functools import partial
from typing import Any
from urllib.parse import parse_qsl, quote, urlsplit

from markupsafe import Markup
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from demaq.console.access import ANONYMOUS_NAME, SESSION_SECONDS, Sessions, User, is_csrf_token, is_same_origin
from demaq.console.console_settings import ConsoleSettings
from demaq.console.known_application import ApplicationCache
from demaq.console.node_monitor import NodeMonitor
from demaq.console.page_templates import render
from demaq.console.routes import PAGES
from demaq.console.store_pool import SECONDS_MAX, ConsoleBusy, StorePool
from demaq.console.visits import (
    STATIC,
    Answer,
    BadRequest,
    ConsolePage,
    Data,
    Download,
    NotThere,
    Redirect,
    Rendered,
    Visit,
)
from demaq.console.worker_process import WorkerProcess
from demaq.errors import MessageError, OperatorError, StoreError
from demaq.gateways.security.authentication import CONSOLE, Authenticator, Denied
from demaq.gateways.security.authorization_header import basic_header
from demaq.gateways.security.secrets import Secret
from demaq.operations.error_groups import KnownErrors
from demaq.operations.flow_style import FLOW_STYLE
from demaq.operations.json_values import as_json
from demaq.store.location import place_of
from demaq.store.sql_store import SqlStore

BODY_BYTES_MAX = 20_000_000
FIELDS_MAX = 200
LOGIN, LOGOUT = "/console/login", "/console/logout"
SLOW_PAGES = ("search", "messages", "why", "{slicing}", "requeue", "purge")
"""How their paths end."""
SLOW_SECONDS_MAX = 27.0
"""How long pages may take that evaluate rules, and actions: a little longer than one waits for the worker process and
its answer, and less than a node waits for a page."""
FLOW_STYLE_FILE = "flow.css"
FIXED_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
CLIENT_HEADER = "demaq-console-client"
"""The address of the client, if a node has passed the request on. A node removes it from what clients send."""

_log = logging.getLogger("demaq.console")


class ConsoleApp:
    """Belongs to one event loop."""

    def __init__(self, settings: ConsoleSettings, *, is_proxied: bool = False, warms_up: bool = False) -> None:
        """`is_proxied` says whether requests are passed on by a node, which says where they come from.

        With `warms_up`, the process that evaluates rules is started after the first page, before it is asked.
        """
        self._settings = settings
        self._is_proxied = is_proxied
        self._warms_up = warms_up
        self._place = place_of(settings.store)
        self._pool = StorePool(self._place.where)
        self._applications = ApplicationCache()
        self._monitor = NodeMonitor(self._place)
        self._worker = WorkerProcess()
        self._known_errors: KnownErrors = {}
        self._sessions = Sessions()
        self._authenticator = Authenticator({CONSOLE: settings})
        self._open_csrf = secrets.token_urlsafe(32)
        self._cookie = "__Host-demaq-session" if settings.is_https else "demaq-session"
        routes = [Route(page.path, partial(self._answer, page), methods=[page.method]) for page in PAGES]
        routes += [
            Route("/", self._go_home),
            Route("/console/", self._go_home),
            Route(LOGIN, self._show_login, methods=["GET"]),
            Route(LOGIN, self._log_in, methods=["POST"]),
            Route(LOGOUT, self._log_out, methods=["POST"]),
            Route("/console/static/{name}", self._serve_static),
        ]
        self._starlette = Starlette(routes=routes, exception_handlers={404: self._not_found, 405: self._not_found})
        self.asgi: ASGIApp = self._serve

    def close(self) -> None:
        self._pool.close()
        self._monitor.close()
        self._worker.close()
        self._authenticator.close()

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        refusal = self._find_foreign_host(Request(scope))
        app: ASGIApp = self._starlette if refusal is None else refusal

        async def send_with_headers(message: Any) -> None:
            if message["type"] == "http.response.start":
                known = {name.lower() for name, _ in message["headers"]}
                message["headers"] = [
                    *message["headers"],
                    *[
                        (name.lower().encode(), value.encode())
                        for name, value in FIXED_HEADERS.items()
                        if name.lower().encode() not in known
                    ],
                ]
            await send(message)

        await app(scope, receive, send_with_headers)

    def _find_foreign_host(self, request: Request) -> Response | None:
        """Return a refusal for a request under another name than ours, if no one is asked who they are."""
        names = self._settings.host_names
        if self._settings.auth or not names:
            return None
        host = request.headers.get("host", "")
        name = host.rpartition(":")[0] if not host.endswith("]") and ":" in host else host
        if name.lower() in names:
            return None
        return Response("this console is not known by that name\n", 421, media_type="text/plain")

    # who asks

    def _scheme(self) -> str:
        return "https" if self._settings.is_https else "http"

    def _address(self, request: Request) -> str:
        if self._is_proxied:
            return request.headers.get(CLIENT_HEADER, "")
        return request.client.host if request.client is not None else ""

    async def _identify(self, request: Request) -> User | Denied | None:
        """Return who asks, why they are refused, or None if they do not say."""
        if not self._settings.auth:
            name = ANONYMOUS_NAME
            return User(name=name, role=self._settings.open_role, kind="open", csrf=self._open_csrf)
        shown = request.headers.get("authorization")
        if shown is not None:
            found = await self._authenticator.decide(CONSOLE, shown, None, self._address(request))
            if isinstance(found, Denied):
                await self._authenticator.hold(found)
                return found
            assert found.role is not None, "without a role no one is let in"
            return User(name=found.name, role=found.role, kind="header", csrf="")
        session = self._sessions.find(request.cookies.get(self._cookie))
        if session is None:
            return None
        name, hashed, csrf = session
        role = self._authenticator.find_role(CONSOLE, name, hashed) if "basic" in self._settings.auth else None
        return None if role is None else User(name=name, role=role, kind="session", csrf=csrf)

    # pages

    async def _answer(self, page: ConsolePage, request: Request) -> Response:
        is_api = page.path.startswith("/api")
        user = await self._identify(request)
        if isinstance(user, Denied):
            headers = {"WWW-Authenticate": user.www_authenticate} if user.www_authenticate is not None else {}
            if user.retry_after_seconds is not None:
                headers["Retry-After"] = str(user.retry_after_seconds)
            return JSONResponse({"error": user.message}, user.status, headers)
        if user is None:
            if is_api or page.method == "POST":
                return JSONResponse({"error": "say who you are"}, 401, {"WWW-Authenticate": self._challenge()})
            return RedirectResponse(f"{LOGIN}?next={quote(_full_path(request), safe='')}", 303)
        if not user.may(page.role):
            said = f"{user.name} may {user.role}, and this needs a user who may {page.role}"
            return self._fail(request, 403, said, user, is_api)
        form: Mapping[str, str] = {}
        if page.method == "POST":
            found = await self._read_form(request, user)
            if isinstance(found, Response):
                return found
            form = found
        return await self._run(page, request, user, form, is_api)

    async def _run(
        self, page: ConsolePage, request: Request, user: User, form: Mapping[str, str], is_api: bool
    ) -> Response:
        def act(store: SqlStore) -> Response:
            visit = Visit(
                store=store,
                place=self._place,
                application=self._applications.read(store),
                applications=self._applications,
                others=self._settings.others,
                monitor=self._monitor,
                worker=self._worker,
                known_errors=self._known_errors,
                user=user,
                path=request.url.path,
                parts=request.path_params,
                query=dict(request.query_params),
                form=form,
            )
            return _respond(page.show(visit), visit)

        status, said = 500, "the console has failed; the log of the node says more"
        is_slow = page.method == "POST" or page.path.rpartition("/")[2] in SLOW_PAGES
        seconds = SLOW_SECONDS_MAX if is_slow else SECONDS_MAX
        try:
            response = await self._pool.run(act, seconds)
            if self._warms_up:
                self._warms_up = False
                self._worker.warm_up(self._place)
            return response
        except BadRequest as error:
            status, said = 400, str(error)
        except NotThere as error:
            status, said = 404, str(error)
        except MessageError as error:
            status, said = 422, error.message
        except ConsoleBusy as error:
            status, said = 503, str(error)
        except StoreError as error:
            status, said = 503, str(error)
        except OperatorError as error:
            status, said = 409, str(error)
        except Exception:
            _log.exception("the page %s failed", page.path)
        return self._fail(request, status, said, user, is_api)

    def _fail(self, request: Request, status: int, said: str, user: User | None, is_api: bool) -> Response:
        if is_api:
            return JSONResponse({"error": said}, status)
        if request.headers.get("hx-request") == "true":
            part = Markup('<p class="banner bad" role="alert">{}</p>').format(said)
            return Response(part, 200, media_type="text/html", headers={"Cache-Control": "no-store"})
        page = render("problem.html", {"said": said, "status": status}, user, request.url.path)
        return Response(page, status, media_type="text/html", headers={"Cache-Control": "no-store"})

    async def _not_found(self, request: Request, error: Exception) -> Response:
        status = getattr(error, "status_code", 404)
        said = "there is no such page" if status == 404 else "this is not done here that way"
        answer = self._fail(request, status, said, None, request.url.path.startswith("/api"))
        answer.headers.update(getattr(error, "headers", None) or {})
        return answer

    def _challenge(self) -> str:
        kinds = {"basic": 'Basic realm="demaq", charset="UTF-8"', "bearer": 'Bearer realm="demaq"'}
        return ", ".join([kinds[kind] for kind in self._settings.auth if kind in kinds])

    async def _go_home(self, request: Request) -> Response:
        return RedirectResponse("/console", 303)

    # actions

    async def _read_form(self, request: Request, user: User) -> Mapping[str, str] | Response:
        """Return what a form or a JSON object says. Return a refusal if another site may have sent it."""
        is_api = request.url.path.startswith("/api")
        same = is_same_origin(request.headers, self._scheme())
        if same is False or (same is None and user.kind == "session" and not is_api):
            return self._fail(request, 403, "this request comes from another site", user, is_api)
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        fields = await _read_fields(request, kind)
        if fields is None:
            return self._fail(request, 400, "a form, or an object of JSON with texts, is expected", user, is_api)
        # A page of another site can send neither a token of ours nor, without being asked for leave, JSON.
        shown = fields.get("csrf") or request.headers.get("x-csrf-token")
        is_free = user.kind == "header" or (user.kind == "open" and kind == "application/json")
        if not is_free and not is_csrf_token(shown, user.csrf):
            said = "the form is too old, or was not made by this console: go back, load the page again, and repeat it"
            return self._fail(request, 403, said, user, is_api)
        return fields

    async def _show_login(
        self, request: Request, said: str | None = None, status: int = 200, to: str | None = None
    ) -> Response:
        if not self._settings.auth:
            return RedirectResponse("/console", 303)
        values = {
            "said": said,
            "next": _safe_next(to or request.query_params.get("next")),
            "csrf": self._open_csrf,
            "has_passwords": "basic" in self._settings.auth,
        }
        page = render("login.html", values, None, LOGIN)
        return Response(page, status, media_type="text/html", headers={"Cache-Control": "no-store"})

    async def _log_in(self, request: Request) -> Response:
        fields = await _read_fields(request, "application/x-www-form-urlencoded")
        if fields is None or is_same_origin(request.headers, self._scheme()) is False:
            return await self._show_login(request, "that request came from another site", 403)
        if not is_csrf_token(fields.get("csrf"), self._open_csrf):
            return await self._show_login(request, "the page was too old; please repeat it", 403, fields.get("next"))
        if "basic" not in self._settings.auth:
            return await self._show_login(request, "this node has no users with passwords", 403)
        shown = basic_header(fields.get("user", ""), Secret(fields.get("password", "")))
        found = await self._authenticator.decide(CONSOLE, shown, None, self._address(request))
        if isinstance(found, Denied):
            await self._authenticator.hold(found)
            return await self._show_login(request, found.message, found.status, fields.get("next"))
        cookie = self._sessions.begin(found.name, found.hash)
        response = RedirectResponse(_safe_next(fields.get("next")), 303)
        response.set_cookie(
            self._cookie,
            cookie,
            max_age=int(SESSION_SECONDS),
            path="/",
            secure=self._settings.is_https,
            httponly=True,
            samesite="strict",
        )
        return response

    async def _log_out(self, request: Request) -> Response:
        user = await self._identify(request)
        if isinstance(user, User) and user.kind == "session":
            fields = await _read_fields(request, "application/x-www-form-urlencoded")
            if fields is None or not is_csrf_token(fields.get("csrf"), user.csrf):
                return self._fail(request, 403, "this request comes from another site", user, False)
        self._sessions.end(request.cookies.get(self._cookie))
        response = RedirectResponse(LOGIN, 303)
        response.delete_cookie(self._cookie, path="/", secure=self._settings.is_https, httponly=True, samesite="strict")
        return response

    async def _serve_static(self, request: Request) -> Response:
        name = request.path_params["name"]
        known = {file.name: file for file in STATIC.iterdir() if file.is_file()}
        headers = {"Cache-Control": "public, max-age=3600"}
        if name == FLOW_STYLE_FILE:
            return Response(FLOW_STYLE, media_type="text/css", headers=headers)
        if name not in known:
            return Response("there is no such file\n", 404, media_type="text/plain")
        kind = mimetypes.guess_type(name)[0] or "text/plain"
        return Response(known[name].read_bytes(), media_type=kind, headers=headers)


def _respond(answer: Answer, visit: Visit) -> Response:
    match answer:
        case Rendered():
            page = render(answer.template, answer.values, visit.user, visit.path, visit)
            headers = {"Cache-Control": "no-store"}
            return Response(page, answer.status, media_type="text/html", headers=headers)
        case Data():
            return Response(
                json.dumps(as_json(answer.value), ensure_ascii=False, indent=2).encode("utf-8", "replace"),
                media_type="application/json",
                headers={"Cache-Control": "no-store"},
            )
        case Redirect():
            return RedirectResponse(answer.to, 303)
        case Download():
            headers = {
                "Content-Disposition": f'attachment; filename="{answer.name}"',
                "Cache-Control": "no-store",
                "Content-Security-Policy": "default-src 'none'; sandbox",
            }
            return Response(answer.data, media_type="application/octet-stream", headers=headers)


async def _read_fields(request: Request, kind: str) -> dict[str, str] | None:
    """Return the fields of a form or of an object of JSON; None for anything else, or too much."""
    data = b""
    async for piece in request.stream():
        data += piece
        if len(data) > BODY_BYTES_MAX:
            return None
    try:
        if kind == "application/json":
            found = json.loads(data or b"{}")
            if not isinstance(found, dict) or len(found) > FIELDS_MAX:
                return None
            fields = {name: _as_text(value) for name, value in found.items()}
            "".join([*fields, *fields.values()]).encode()  # half of a surrogate pair is no text
            return fields
        if kind in ("application/x-www-form-urlencoded", ""):
            return dict(parse_qsl(data.decode(), keep_blank_values=True, max_num_fields=FIELDS_MAX, errors="strict"))
    except (ValueError, RecursionError):
        return None
    return None


def _as_text(value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "1" if value else ""
    if isinstance(value, list):
        return " ".join([_as_text(item) for item in value])
    return "" if value is None else str(value)


def _full_path(request: Request) -> str:
    return request.url.path + (f"?{request.url.query}" if request.url.query else "")


def _safe_next(to: str | None) -> str:
    """Return where to go after the login: a page of the console, whatever the address says."""
    if not to or not to.startswith("/console") or "\\" in to or any([ord(c) < 32 for c in to]):
        return "/console"
    parts = urlsplit(to)
    return to if not parts.scheme and not parts.netloc and not to.startswith(LOGIN) else "/console"
