"""Functions with regular expressions, masks and URLs."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from typing import Any
from urllib.parse import quote_plus, unquote_plus

from millstream.sql.functions.catalogue import ScalarFunction, on, scalar
from millstream.sql.functions.java.regex import find, find_all, groups_of, replace_all, split
from millstream.sql.functions.java.uri import Uri, parse_uri

# ----- regular expressions -------------------------------------------------------------------------------------------


def _extract(pattern: str, text: str, group: int = 0) -> str | None:
    match = find(pattern, text)
    if match is None or group > match.re.groups:
        return None
    found = match[group] if group >= 0 else None
    return None if found is None else str(found)


def _extract_all(pattern: str, text: str, group: int = 0) -> list[Any] | None:
    if group > groups_of(pattern):
        return None
    found = []
    for match in find_all(pattern, text):
        if group < 0:
            raise IndexError(f"REGEXP_EXTRACT_ALL: there is no group {group}")
        found.append(match[group])
    return found


# ----- masks ---------------------------------------------------------------------------------------------------------

Mask = Callable[[str], str]


def _mask_of(masks: tuple[str | None, ...]) -> Mask:
    for mask in masks:
        if mask is not None and len(mask) != 1:
            raise ValueError(f"a mask is one character, not {mask[:20]!r}")
    upper, lower, digit, other = masks or ("X", "x", "n", "-")

    masks_of = {"Lu": upper, "Ll": lower, "Nd": digit}

    def mask_character(character: str) -> str:
        mask = masks_of.get(unicodedata.category(character), other)
        return character if mask is None else mask

    return lambda text: "".join(map(mask_character, text))


def _mask(text: str | None, *masks: str | None) -> str | None:
    return None if text is None else _mask_of(masks)(text)


def _mask_part(cut: Callable[[str, int, Mask], str]) -> Callable[..., str | None]:
    def compute(text: str | None, count: int, *masks: str | None) -> str | None:
        if count < 0:
            raise ValueError(f"a number of characters must not be negative, as {count} is")
        return None if text is None else cut(text, min(count, len(text)), _mask_of(masks))

    return compute


def _masking(name: str, documentation: str, example: tuple[str, str], cut: Any) -> ScalarFunction:
    return scalar(
        name,
        "strings",
        documentation,
        example,
        on("(STRING, INT!) -> STRING", _mask_part(cut), nulls=True),
        on("(STRING, INT!, STRING, STRING, STRING, STRING) -> STRING", _mask_part(cut), nulls=True),
    )


# ----- URLs ----------------------------------------------------------------------------------------------------------

_BAD_ESCAPE = re.compile("%(?![0-9A-Fa-f]{2})")


def _url_encode(text: str) -> str:
    return quote_plus(text, safe="*-._", errors="replace").replace("~", "%7E")


def _url_decode(text: str) -> str:
    if _BAD_ESCAPE.search(text):
        raise ValueError(f"{text[:200]!r} has a % without two hexadecimal digits")
    return unquote_plus(text, errors="replace")


def _parameter(url: str, name: str) -> str | None:
    query = parse_uri(url).query
    for entry in () if query is None else query.split("&"):
        key, _separator, value = entry.partition("=")
        if key == name:
            return value
    return None


def _part(
    name: str, documentation: str, shown: str, get: Callable[[Uri], Any], type_: str = "STRING"
) -> ScalarFunction:
    example = (f"{name}('https://example.com:8080/a?b=c#d')", shown)
    return scalar(name, "urls", documentation, example, on(f"(STRING) -> {type_}", lambda url: get(parse_uri(url))))


FUNCTIONS = (
    scalar(
        "REGEXP_EXTRACT",
        "strings",
        "Returns the first match of a regular expression, which goes first, in a text; or a group of the match.",
        ("REGEXP_EXTRACT('(.*) (.*)', 'first second', 2)", "second"),
        on("(STRING, STRING) -> STRING", _extract),
        on("(STRING, STRING, INT) -> STRING", _extract),
    ),
    scalar(
        "REGEXP_EXTRACT_ALL",
        "strings",
        "Returns all matches of a regular expression, which goes first, in a text; or a group of each match.",
        ("REGEXP_EXTRACT_ALL('[0-9]', 'a1b2')", "[1, 2]"),
        on("(STRING, STRING) -> ARRAY<STRING>", _extract_all),
        on("(STRING, STRING, INT) -> ARRAY<STRING>", _extract_all),
    ),
    scalar(
        "REGEXP_REPLACE",
        "strings",
        "Replaces every match of a regular expression; $1 in the replacement is the first group.",
        ("REGEXP_REPLACE('ann', '(n)', '<$1>')", "a<n><n>"),
        on("(STRING, STRING, STRING) -> STRING", replace_all),
    ),
    scalar(
        "REGEXP_SPLIT_TO_ARRAY",
        "strings",
        "Splits a text at the matches of a regular expression.",
        ("REGEXP_SPLIT_TO_ARRAY('a1b22c', '[0-9]+')", "[a, b, c]"),
        on("(STRING, STRING) -> ARRAY<STRING>", split),
    ),
    scalar(
        "MASK",
        "strings",
        "Masks upper case, lower case, digits and other characters with X, x, n and -, or with four masks.",
        ("MASK('My Test $123')", "Xx-Xxxx--nnn"),
        on("(STRING) -> STRING", _mask, nulls=True),
        on("(STRING, STRING, STRING, STRING, STRING) -> STRING", _mask, nulls=True),
    ),
    _masking(
        "MASK_LEFT",
        "Masks the first characters of a text.",
        ("MASK_LEFT('My Test', 4)", "Xx-Xest"),
        lambda text, count, mask: mask(text[:count]) + text[count:],
    ),
    _masking(
        "MASK_RIGHT",
        "Masks the last characters of a text.",
        ("MASK_RIGHT('My Test', 2)", "My Texx"),
        lambda text, count, mask: text[: len(text) - count] + mask(text[len(text) - count :]),
    ),
    _masking(
        "MASK_KEEP_LEFT",
        "Masks a text but for its first characters.",
        ("MASK_KEEP_LEFT('My Test', 4)", "My Txxx"),
        lambda text, count, mask: text[:count] + mask(text[count:]),
    ),
    _masking(
        "MASK_KEEP_RIGHT",
        "Masks a text but for its last characters.",
        ("MASK_KEEP_RIGHT('My Test', 2)", "Xx-Xxst"),
        lambda text, count, mask: mask(text[: len(text) - count]) + text[len(text) - count :],
    ),
    scalar(
        "URL_ENCODE_PARAM",
        "urls",
        "Encodes a text for the query of a URL, as forms do.",
        ("URL_ENCODE_PARAM('a b&c')", "a+b%26c"),
        on("(STRING) -> STRING", _url_encode),
    ),
    scalar(
        "URL_DECODE_PARAM",
        "urls",
        "Decodes a text of the query of a URL.",
        ("URL_DECODE_PARAM('a+b%26c')", "a b&c"),
        on("(STRING) -> STRING", _url_decode),
    ),
    _part("URL_EXTRACT_PROTOCOL", "Returns the scheme of a URL.", "https", lambda uri: uri.scheme),
    _part("URL_EXTRACT_HOST", "Returns the host of a URL.", "example.com", lambda uri: uri.host),
    _part("URL_EXTRACT_PORT", "Returns the port of a URL.", "8080", lambda uri: uri.port, "INT"),
    _part("URL_EXTRACT_PATH", "Returns the path of a URL, decoded.", "/a", lambda uri: uri.path),
    _part("URL_EXTRACT_QUERY", "Returns the query of a URL, decoded.", "b=c", lambda uri: uri.query),
    _part("URL_EXTRACT_FRAGMENT", "Returns the fragment of a URL, decoded.", "d", lambda uri: uri.fragment),
    scalar(
        "URL_EXTRACT_PARAMETER",
        "urls",
        "Returns the first value of a parameter in the query of a URL.",
        ("URL_EXTRACT_PARAMETER('https://example.com/?a=1&b=2', 'b')", "2"),
        on("(STRING, STRING) -> STRING", _parameter),
    ),
)
