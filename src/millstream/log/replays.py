"""Compares a replay with the published batch."""

from __future__ import annotations

from millstream.errors import NonDeterministicError
from millstream.log.api import Fingerprints, Publication

FORM = "form of digests"
"""An entry of fingerprints that is no topic and no store: its number identifies the digest algorithm."""


def check_replay(publication: Publication, before: Fingerprints) -> None:
    """Raises a `NonDeterministicError` if the replay of a published batch has other results.

    If a version with another digest algorithm has published it, only the counts of results are compared.
    """
    now = publication.fingerprints
    if now.get(FORM) != before.get(FORM):
        now, before = _counts(now), _counts(before)
    if differ := tuple(sorted(n for n in {*now, *before} if now.get(n) != before.get(n))):
        what = f"batch {publication.batch} of {publication.scope}"
        message = f"{what} was published before, and its replay gives other results in: {', '.join(differ)}"
        hint = "functions must give the same result for the same record: no clock, random numbers or outside data"
        raise NonDeterministicError(message, hint=hint, names=differ)


def _counts(fingerprints: Fingerprints) -> Fingerprints:
    return {name: (count, b"") for name, (count, _digest) in fingerprints.items() if name != FORM}
