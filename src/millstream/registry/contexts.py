"""Contexts: groups of subjects with ids of their own, as Confluent's registry has them."""

from __future__ import annotations

import re

from millstream.errors import RegistryError

DEFAULT_CONTEXT = "."

_QUALIFIED = re.compile(r":(?P<context>\.[^:]*):(?P<name>.*)", re.DOTALL)


def split_subject(subject: str) -> tuple[str, str]:
    """Returns the context of a subject, and the subject in its usual form.

    >>> split_subject("orders-value")
    ('.', 'orders-value')
    >>> split_subject(":.staging:orders-value"), split_subject(":.:orders-value")
    (('.staging', ':.staging:orders-value'), ('.', 'orders-value'))

    Raises:
        RegistryError: It is not a name of a subject.
    """
    match = _QUALIFIED.fullmatch(subject)
    context, name = (match["context"], match["name"]) if match else (DEFAULT_CONTEXT, subject)
    if not name or not name.isprintable():
        raise RegistryError(f"{subject!r} is not a name of a subject", hint="the value of a topic has TOPIC-value")
    return (context, name) if context == DEFAULT_CONTEXT else (context, f":{context}:{name}")
