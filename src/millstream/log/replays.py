"""A batch that was published and comes again must be the same batch."""

from __future__ import annotations

from millstream.errors import NonDeterministicError
from millstream.log.api import Fingerprints, Publication

FORM = "form of digests"
"""Among fingerprints, this is no topic and no store: its number says in what way the digests were made."""


def check_replay(publication: Publication, before: Fingerprints) -> None:
    """Raises a `NonDeterministicError` if a batch that was published comes again with other results.

    If another version has published it, which made digests in another way, only numbers of results can be compared.
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
