"""Translates errors of the client to those of Millstream. None of the messages contains a secret."""

from __future__ import annotations

from millstream.errors import (
    IncompatibleSchemaError,
    InvalidSchemaError,
    RegistryError,
    SchemaError,
    UnknownSchemaError,
)

_AWAY = frozenset({408, 429, 502, 503, 504})
_NO_SUCH_PATH = frozenset(
    {404, -1}
)  # error codes of a server that is no registry; those of a registry have five digits
_INVALID_SCHEMA = 42201
_AUTHENTICATION = (
    "check schema.registry.basic.auth.user.info, or schema.registry.bearer.auth.token, and what this user may do"
)
_ADDRESS = "check schema.registry.url: it may need a path, such as /apis/ccompat/v7 of Apicurio Registry"


class PassingError(RegistryError):
    """A failure after which a request may succeed later.

    Attributes:
        is_away: Whether the registry does not answer. Otherwise it answers with an internal error.
        reason: The failure in a few words.
    """

    def __init__(self, place: str, reason: str, *, is_away: bool) -> None:
        self._place, self.reason, self.is_away = place, reason, is_away
        verb = "does not answer" if is_away else "fails"
        super().__init__(f"the schema registry at {place} {verb}: {reason}", hint=self._hint, may_pass=True)

    @property
    def _hint(self) -> str:
        if self.is_away:
            return "check schema.registry.url, and that it is running; schema.registry.api.timeout.ms limits the wait"
        return "the log of the registry has the reason; schema.registry.max.retries limits the repetitions"

    def after(self, seconds: float, attempts: int) -> RegistryError:
        """Returns the error after the last attempt."""
        since = f"has not answered for {seconds:.0f} s" if self.is_away else f"failed {attempts} times"
        message = f"the schema registry at {self._place} {since}: {self.reason}"
        return RegistryError(message, hint=self._hint, may_pass=True)


def is_failure_of_client(error: Exception) -> bool:
    """Whether an error stems from a request or its answer.

    An answer of the wrong form makes the client fail with all kinds of errors.
    """
    module = type(error).__module__.partition(".")[0]
    kinds = (ValueError, TypeError, KeyError, AttributeError, IndexError, OSError)
    return module in {"confluent_kafka", "httpx", "httpx2", "authlib"} or isinstance(error, kinds)


def translate(error: Exception, what: str, place: str) -> SchemaError:
    """Returns the error of Millstream for an error of the client.

    Args:
        error: The error.
        what: What the request was for.
        place: The addresses of the registry.
    """
    status = getattr(error, "http_status_code", None)
    if status is not None:
        return _refused(int(status), getattr(error, "error_code", None), _text_of(error), what, place)
    names = {kind.__name__ for kind in type(error).__mro__}
    if "TransportError" in names or isinstance(error, OSError):
        return _unreachable(error, names, place)
    if "OAuthTokenError" in names or type(error).__module__.startswith("authlib"):
        hint = "check schema.registry.bearer.auth.issuer.endpoint.url, .client.id, .client.secret and .scope"
        return RegistryError(f"there is no token for the schema registry at {place}: {_short(str(error))}", hint=hint)
    problem = f"the answer of {place} about {what} makes no sense: {_short(str(error)) or type(error).__name__}"
    return RegistryError(problem, hint=_ADDRESS)


def _unreachable(error: Exception, names: set[str], place: str) -> RegistryError:
    text = _short(str(error)) or type(error).__name__
    if "CERTIFICATE_VERIFY_FAILED" in text:
        hint = "name the file of its authority in schema.registry.ssl.ca.location"
        return RegistryError(f"the certificate of the schema registry at {place} is not trusted: {text}", hint=hint)
    if "TLS" in text or "SSL" in text:
        hint = "check http:// or https:// in schema.registry.url, and schema.registry.ssl.*"
        return RegistryError(f"there is no TLS connection to the schema registry at {place}: {text}", hint=hint)
    if "UnsupportedProtocol" in names:
        return RegistryError(f"the schema registry at {place} cannot be asked: {text}", hint=_ADDRESS)
    reason = "it did not answer in time" if "TimeoutException" in names else text
    return PassingError(place, reason, is_away=True)


def _refused(status: int, code: object, text: str, what: str, place: str) -> SchemaError:
    if status in _AWAY:
        return PassingError(place, f"status {status}: {text}", is_away=True)
    if status >= 500:
        return PassingError(place, f"status {status}: {text}", is_away=False)
    if status in {401, 403}:
        problem = "does not know this user" if status == 401 else "does not permit this to the user"
        return RegistryError(f"the schema registry at {place} {problem} ({what}): {text}", hint=_AUTHENTICATION)
    if status == 404 and code not in _NO_SUCH_PATH:
        return UnknownSchemaError(f"the schema registry at {place} has no {what}: {text}")
    if status == 404:
        return RegistryError(f"{place} is no schema registry, or has another address: {text}", hint=_ADDRESS)
    if status == 409:
        return IncompatibleSchemaError(f"the schema is not compatible with {what}: {text}", problems=(text,))
    if status == 422 and code == _INVALID_SCHEMA:
        return InvalidSchemaError(f"the schema registry at {place} does not accept the schema of {what}: {text}")
    return RegistryError(f"the schema registry at {place} refuses the request about {what} ({status}): {text}")


def _text_of(error: Exception) -> str:
    return _short(str(getattr(error, "error_message", "") or "without a message"))


def _short(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= 400 else f"{flat[:300]} … {flat[-80:]}"
