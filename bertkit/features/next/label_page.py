"""The page of `bertkit label`: a row at a time, its answers as buttons of a form, which keys press.

All state is on the server, and each form has its version, so that a page that is no longer up to date, as after a key
that is pressed twice, changes nothing. A form also has a token that pages of other sites cannot read.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Callable
from urllib.parse import parse_qs

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from bertkit.data.tables.classes import is_missing
from bertkit.data.tables.proposed import GUESS, PROBABILITY, REASON
from bertkit.data.tables.table import to_number
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
            Route("/answer", page.changing(page.answer), methods=["POST"]),
            Route("/undo", page.changing(page.undo), methods=["POST"]),
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
        number = min(int(asked[:9]) - 1, len(answers)) if asked.isdecimal() else answers.next_open()
        note, self._note = self._note, ""
        page = render_page(
            "bertkit.features.next",
            "label.html",
            "label.js",
            "label.css",
            answers=answers,
            number=max(number, 0),
            guess=self._guess(max(number, 0)),
            following=answers.next_open(number + 1),
            keys=_KEYS,
            token=self._token,
            note=note,
            command=self._command,
            filters={"cell": _cell},
        )
        return HTMLResponse(page, headers=_HEADERS)

    def changing(self, change: Callable[[dict[str, str]], int]) -> Callable[[Request], object]:
        """Returns the handler of a form, which changes the file if the form is of this page and up to date.

        Args:
            change: takes the fields, and returns the row to show.
        """

        async def handle(request: Request) -> Response:
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
            number = _whole(fields.get("row", ""), len(self._answers))
            if fields.get("version") != str(self._answers.version):
                self._note = _OUT_OF_DATE
            else:
                try:
                    number = change({**fields, "row": str(number)})
                except BertkitError as error:
                    self._note = str(error)
            return RedirectResponse(f"./?row={number + 1}", 303, _HEADERS)

        return handle

    def answer(self, fields: dict[str, str]) -> int:
        """Gives a row its label; returns the next one without a label."""
        number = int(fields["row"])
        if number < len(self._answers):
            self._answers.answer(number, fields.get("label", ""))
            number = self._answers.next_open(number + 1)
        return number

    def undo(self, fields: dict[str, str]) -> int:
        """Takes back the last answer; returns its row."""
        return self._answers.undo() if self._answers.can_undo else int(fields["row"])

    def _guess(self, number: int) -> dict[str, str]:
        """Returns the guess for a row, its probability in words and the reason; nothing behind the last row."""
        if number >= len(self._answers):
            return {}
        guess, probability, reason = (self._answers.value(number, name) for name in (GUESS, PROBABILITY, REASON))
        share = "" if is_missing(probability) else f" ({100 * to_number(probability):.0f} %)"
        return {"name": str(guess), "share": share, "reason": "" if is_missing(reason) else str(reason)}


def _whole(text: str, most: int) -> int:
    """Returns a whole number of a form between 0 and ``most``; 0 for anything else."""
    return min(int(text[:9]), most) if text.isdecimal() else 0


def _cell(value: object) -> str:
    """Returns the value of a cell as text."""
    return "" if value is None else str(value)
