"""URIs as ``java.net.URI`` reads them (RFC 2396)."""

from __future__ import annotations

import re
from urllib.parse import unquote

from millstream.core.frozen import Frozen

_ALNUM = "A-Za-z0-9"
_UNRESERVED = _ALNUM + r"\-_.!~*'()"
# Java also takes characters beyond ASCII that are neither controls nor spaces.
_OTHER = r"[^\x00-\x7f\x80-\x9f\s]"


def _characters(allowed: str) -> re.Pattern[str]:
    return re.compile(f"(?:[{allowed}]|%[0-9A-Fa-f]{{2}}|{_OTHER})*")


_PATH = _characters(_UNRESERVED + ":@&=+$,;/")
_URIC = _characters(_UNRESERVED + r";/?:@&=+$,\[\]")
_REGISTRY = _characters(_UNRESERVED + "$,;:@&=+")
_USER = _characters(_UNRESERVED + ";:&=+$,")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+\-.]*")
_SERVER = re.compile(
    r"(?:(?P<user>[^@]*)@)?(?P<host>\[[0-9A-Fa-f:.]+(?:%[\w.]+)?\]|[^:@\[\]]*)(?::(?P<port>\d*))?", re.ASCII
)
_LABEL = rf"[{_ALNUM}](?:[{_ALNUM}\-]*[{_ALNUM}])?"
_HOST = re.compile(rf"(?:{_LABEL}\.)*[A-Za-z](?:[{_ALNUM}\-]*[{_ALNUM}])?\.?")
_IPV4 = re.compile(r"(?:\d{1,3})(?:\.\d{1,3}){3}", re.ASCII)


class Uri(Frozen):
    """The decoded parts of a URI; None for those that it does not have."""

    scheme: str | None = None
    host: str | None = None
    port: int | None = None
    path: str | None = None
    query: str | None = None
    fragment: str | None = None


def parse_uri(text: str) -> Uri:
    """Reads a URI.

    >>> uri = parse_uri("https://ann@example.com:8080/a%20b?x=1#top")
    >>> uri.scheme, uri.host, uri.port, uri.path, uri.query, uri.fragment
    ('https', 'example.com', 8080, '/a b', 'x=1', 'top')

    Raises:
        ValueError: It is malformed.
    """
    rest, hash_mark, fragment = text.partition("#")
    _check(_URIC, fragment, text, "fragment")
    decoded_fragment = _decode(fragment) if hash_mark else None
    scheme = None
    colon = re.search("[:/?]", rest)
    if colon is not None and colon[0] == ":":
        scheme, rest = rest[: colon.start()], rest[colon.end() :]
        if not _SCHEME.fullmatch(scheme):
            raise _malformed(text, "the scheme name is illegal or missing")
        if not rest.startswith("/"):
            if not rest:
                raise _malformed(text, "the part after the scheme is missing")
            _check(_URIC, rest, text, "opaque part")
            return Uri(scheme=scheme, fragment=decoded_fragment)
    hierarchy, question, query = rest.partition("?")
    _check(_URIC, query, text, "query")
    host, port, path = None, None, hierarchy
    if hierarchy.startswith("//"):
        authority, slash, tail = hierarchy[2:].partition("/")
        path = slash + tail
        if authority:
            host, port = _authority(authority, text)
        elif not path and not question and not hash_mark:
            raise _malformed(text, "the authority is missing")
    _check(_PATH, path, text, "path")
    return Uri(scheme, host, port, _decode(path), _decode(query) if question else None, decoded_fragment)


def _authority(authority: str, text: str) -> tuple[str | None, int | None]:
    """Reads ``user@host:port``; a name that is no host is allowed, but has no parts."""
    match = _SERVER.fullmatch(authority)
    if match is not None and _USER.fullmatch(match["user"] or ""):
        host, port = match["host"], match["port"]
        known = host.startswith("[") or _HOST.fullmatch(host) or _is_ipv4(host)
        if known and (not port or int(port[:11]) < 2**31):
            return host, int(port) if port else None
    _check(_REGISTRY, authority, text, "authority")
    return None, None


def _is_ipv4(host: str) -> bool:
    return _IPV4.fullmatch(host) is not None and all(int(part) <= 255 for part in host.split("."))


def _check(allowed: re.Pattern[str], part: str, text: str, name: str) -> None:
    if not allowed.fullmatch(part):
        raise _malformed(text, f"there is an illegal character in the {name}")


def _malformed(text: str, reason: str) -> ValueError:
    return ValueError(f"URL input has invalid syntax: {text[:200]!r}: {reason}")


def _decode(part: str) -> str:
    return unquote(part, errors="replace")
