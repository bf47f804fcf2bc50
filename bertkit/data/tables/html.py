"""HTML → the text that is seen in a browser or a mail program, a line for each block."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import TYPE_CHECKING, NamedTuple

from bertkit.runtime.errors import DataError

if TYPE_CHECKING:
    from css_inline import CSSInliner

_NOT_SHOWN = {
    *("script", "style", "head", "title", "template", "noscript", "datalist"),
    # Their text is for programs that cannot show them.
    *("iframe", "noframes", "noembed", "object", "audio", "video", "canvas"),
}
_RAW = {"noscript", "iframe", "noframes", "noembed", "xmp"}  # what is in them is no elements, and may have no end tags
_INLINE = {
    *("a", "abbr", "acronym", "b", "bdi", "bdo", "big", "cite", "code", "data", "del", "dfn", "em", "font", "i", "ins"),
    *("kbd", "label", "mark", "nobr", "output", "q", "s", "samp", "small", "span", "strike", "strong", "sub", "sup"),
    *("time", "tt", "u", "var", "wbr"),
}
_EMPTY = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source", "track", "wbr"}
_TAG = re.compile(r"<(/?)([a-z][^\s/<>]*+)[^<>]*+(?<!/)>", re.IGNORECASE)  # not an empty one, <path/>
_DEEPEST = 2000  # elements in each other, for which css-inline calls itself: many more overflow the stack
# Of these the next one of a kind ends the one before.
_NOT_NESTED = _EMPTY | {"p", "li", "dt", "dd", "option", "optgroup", "tr", "td", "th", "thead", "tbody", "tfoot"}
_STYLE = re.compile(r'(?<=\sstyle=")[^"]*')
_PLAIN = re.compile(r"\s*[\w-]+\s*:[\w\s.,#%!+-]+")  # a declaration
_VISIBILITY = {"visible": True, "initial": True, "hidden": False, "collapse": False}  # others are that of the parent
_ON_SCREENS = ("", "all", "screen")  # media of a style sheet
_ZERO = re.compile(r"0*\.?0+(?:px|pt|r?em|%)?")
_OF_PARENT = re.compile(r"[0-9.]+(?:%|em)|inherit|larger|smaller")  # sizes of fonts


def text_of_html(html: str, name: str = "HTML") -> str:
    """Returns the text of HTML that is seen; ``name`` is that of the page in messages.

    Not seen is what the attribute ``hidden`` hides, or a style of the element or of a style sheet in the text, such as
    the preheaders of mails: by ``display``, ``visibility``, ``opacity``, a ``font-size`` of 0, and a ``max-height`` or
    ``max-width`` of 0 that clips.
    Style sheets in other files are not read.

    Raises:
        DataError: elements are nested more than 2,000 deep, which would end the process.

    >>> text_of_html("<style>p {}</style><h1>Hello</h1><p>a <b>good</b>&nbsp;film<br>of 1999</p>")
    'Hello\\na good\\xa0film\\nof 1999'
    >>> text_of_html("<style>.pre {opacity: 0}</style><div class=pre>Read online</div><p hidden>b<p>Dear reader")
    'Dear reader'
    """
    if _depth(html) > _DEEPEST:
        raise DataError(
            f"{name}: its elements are nested more than {_DEEPEST:,} deep, or are not closed; save its text as .txt"
        )
    whole = _make_inliner("").inline(html)  # with all end tags
    if "<style" in whole:
        sheets = _StyleSheets()
        sheets.feed(whole)
        inliner = _make_inliner("\n".join(sheets.found))
        try:
            whole = inliner.inline(whole)
        except ValueError:  # of a style attribute with a fault, whose declarations browsers leave out
            plain = _STYLE.sub(lambda found: ";".join(filter(_PLAIN.fullmatch, found[0].split(";"))), whole)
            whole = inliner.inline(plain)
    seen = _SeenText()
    seen.feed(whole)
    seen.close()
    lines = (" ".join(re.split(r"[ \t\n\r\f]+", line)).strip(" ") for line in "".join(seen.parts).split("\0"))
    return "\n".join(filter(None, lines))


def _depth(html: str) -> int:
    """Returns how deep elements are nested at most, by their tags."""
    depth = deepest = 0
    for is_end, tag in _TAG.findall(html):
        if tag.lower() not in _NOT_NESTED:
            depth = max(0, depth - 1) if is_end else depth + 1
            deepest = max(deepest, depth)
    return deepest


def _make_inliner(css: str) -> CSSInliner:
    """Returns what writes a style sheet into the attribute ``style`` of the elements; reads no other file."""
    from css_inline import CSSInliner

    return CSSInliner(inline_style_tags=False, keep_style_tags=True, load_remote_stylesheets=False, extra_css=css)


class _StyleSheets(HTMLParser):
    """Collects the style sheets in a text that are for screens."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self._is_in = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in _RAW:
            self.set_cdata_mode(tag)
        media = (dict(attrs).get("media") or "").strip().lower()
        self._is_in = tag == "style" and media in _ON_SCREENS

    def handle_endtag(self, tag: str) -> None:
        self._is_in = False

    def handle_data(self, data: str) -> None:
        if self._is_in:
            self.found.append(data)


class _Element(NamedTuple):
    """An open element, by what of it is seen.

    Attributes:
        tag: its name.
        is_shown: it takes space and is not transparent; if not, nothing in it is seen.
        is_visible, has_size: its own text is visible, and has a size of the font, which elements in it can change.
    """

    tag: str = ""
    is_shown: bool = True
    is_visible: bool = True
    has_size: bool = True

    def child(self, tag: str, attributes: dict[str, str | None]) -> _Element:
        """Returns an element in this one."""
        if not attributes and tag not in _NOT_SHOWN and tag != "dialog":
            return self._replace(tag=tag)
        parts = (part.partition(":") for part in (attributes.get("style") or "").lower().split(";"))
        style = {name.strip(): value.replace("!important", "").strip() for name, _, value in parts}
        is_closed = "hidden" in attributes or (tag == "dialog" and "open" not in attributes)
        display = style.get("display", "none" if is_closed else "")
        is_clipped = style.get("overflow", style.get("overflow-y")) in ("hidden", "clip") and any(
            _ZERO.fullmatch(style.get(name, "")) for name in ("max-height", "max-width")
        )
        is_hidden = tag in _NOT_SHOWN or display == "none" or is_clipped or _ZERO.fullmatch(style.get("opacity", ""))
        visibility, size = style.get("visibility"), style.get("font-size", "inherit")
        return _Element(
            tag,
            is_shown=self.is_shown and not is_hidden,
            is_visible=_VISIBILITY.get(visibility or "", self.is_visible),
            has_size=not _ZERO.fullmatch(size) and (self.has_size or not _OF_PARENT.fullmatch(size)),
        )

    @property
    def is_seen(self) -> bool:
        """Returns whether the text of the element itself is visible."""
        return self.is_shown and self.is_visible and self.has_size


class _SeenText(HTMLParser):
    """Collects the text that is seen; a NUL stands between blocks."""

    def __init__(self) -> None:
        super().__init__()
        self.parts: list[str] = []
        self._open = [_Element()]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in _RAW:
            self.set_cdata_mode(tag)
        if tag not in _EMPTY:
            self._open.append(self._open[-1].child(tag, dict(attrs)))
        self._end_block(tag)

    def handle_endtag(self, tag: str) -> None:
        if len(self._open) > 1 and self._open[-1].tag == tag:
            self._open.pop()
        self._end_block(tag)

    def handle_data(self, data: str) -> None:
        if self._open[-1].is_seen:
            self.parts.append(data.replace("\0", " "))

    def _end_block(self, tag: str) -> None:
        if tag not in _INLINE:
            self.parts.append("\0")
