"""The page of `bertkit label`: a row at a time, its answers as buttons of a form, which keys press.

All state is on the server, and each form has its version, so that a page that is no longer up to date, as after a key
that is pressed twice, changes nothing. A form also has a token that pages of other sites cannot read.
"""

from __future__ import annotations

import hmac
import secrets
from urllib.parse import parse_qs

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from bertkit.features.next.answers import Answers
from bertkit.runtime.errors import BertkitError
from bertkit.runtime.pages.page import render_page

_HEADERS = {
    "Content-Security-Policy": "frame-ancestors 'none'; form-action 'self'; base-uri 'none'",
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
}
_MOST_BYTES = 10_000  # of a form
_KEYS = 9  # classes with a key
_OUT_OF_DATE = "The page was out of date, so nothing was changed."


def label_app(answers: Answers, command: str) -> Starlette:
    """Returns the ASGI application with the page.

    Args:
        answers: rows and labels.
        command: trains with the labelled rows; shown at the end.
    """
    page = _Page(answers, command)
    return Starlette(
        routes=[
            Route("/", page.show, methods=["GET"]),
            Route("/answer", page.change, methods=["POST"]),
            Route("/undo", page.change, methods=["POST"]),
        ]
    )


class _Page:
    """The page, and what its forms do."""

    def __init__(self, answers: Answers, command: str):
        self._answers = answers
        self._command = command
        self._token = secrets.token_urlsafe()
        self._note = ""  # for the next view

    async def show(self, request: Request) -> Response:
        """Answers GET: the row that is asked for, the first one without a label, or the end."""
        answers = self._answers
        if answers.has_changed():
            try:
                answers.read()
            except BertkitError as error:
                return PlainTextResponse(f"{error}\n\nMend the file, and reload this page.", 409, _HEADERS)
            before = f"{self._note.rstrip('.')}. " if self._note else ""
            self._note = f"{before}The file was changed by another program; this is what it has now."
        asked = request.query_params.get("row", "")
        number = min(max(int(asked[:9]) - 1, 0), len(answers)) if asked.isdecimal() else answers.next_open()
        note, self._note = self._note, ""
        page = render_page(
            "bertkit.features.next",
            "label.html",
            "label.js",
            "label.css",
            answers=answers,
            number=number,
            guess=answers.guess_of(number),
            following=answers.next_open(number + 1),
            keys=_KEYS,
            token=self._token,
            note=note,
            command=self._command,
            filters={"cell": lambda value: "" if value is None else str(value)},
        )
        return HTMLResponse(page, headers=_HEADERS)

    async def change(self, request: Request) -> Response:
        """Answers POST of a form: changes the file if the form is of this page and up to date, and shows a row."""
        body = b""
        async for part in request.stream():
            body += part
            if len(body) > _MOST_BYTES:
                return PlainTextResponse("the form is too large", 413, _HEADERS)
        fields = {name: values[-1] for name, values in parse_qs(body.decode("utf-8", "replace")).items()}
        is_foreign = request.headers.get("sec-fetch-site", "same-origin") != "same-origin"
        token = fields.get("token", "").encode("utf-8", "replace")
        if is_foreign or not hmac.compare_digest(token, self._token.encode()):
            return PlainTextResponse("only the forms of this page change the file; reload it", 403, _HEADERS)
        answers, asked = self._answers, fields.get("row", "")
        number = min(int(asked[:9]), len(answers)) if asked.isdecimal() else 0
        if fields.get("version") != str(answers.version):
            self._note = _OUT_OF_DATE
        else:
            try:
                if request.url.path.endswith("/undo"):
                    number = answers.undo() if answers.can_undo else number
                elif number < len(answers):
                    answers.answer(number, fields.get("label", ""))
                    number = answers.next_open(number + 1)
            except BertkitError as error:
                self._note = str(error)
        return RedirectResponse(f"./?row={number + 1}", 303, _HEADERS)
