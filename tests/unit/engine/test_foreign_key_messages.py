"""The messages of joins by foreign key have the layout of tuples."""

from __future__ import annotations

import pytest

from millstream.engine.foreign_key_messages import (
    ANSWER_IF_PRESENT,
    digest_of_row,
    pack_answer,
    pack_row,
    pack_subscription,
    unpack_answer,
    unpack_subscription,
)
from millstream.serde import BYTES, LONG, tuple_of

SUBSCRIPTION, ROW, ANSWER = tuple_of(BYTES, BYTES, BYTES), tuple_of(BYTES, LONG), tuple_of(BYTES, BYTES)


@pytest.mark.parametrize("digest", [b"", b"0123456789abcdef"])
@pytest.mark.parametrize("data", [b"", b"x" * 300])
def test_messages_are_tuples(digest: bytes, data: bytes) -> None:
    subscription = pack_subscription(ANSWER_IF_PRESENT, data, digest)
    assert subscription == SUBSCRIPTION.serialize((ANSWER_IF_PRESENT, data, digest))
    assert unpack_subscription(subscription) == (ANSWER_IF_PRESENT, data, digest)
    assert pack_row(digest, -5) == ROW.serialize((digest, -5))
    assert digest_of_row(pack_row(digest, -5)) == digest
    for value in (data, None):
        assert pack_answer(digest, value) == ANSWER.serialize((digest, value))
        assert unpack_answer(pack_answer(digest, value)) == (digest, value)
