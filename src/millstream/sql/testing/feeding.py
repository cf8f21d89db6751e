"""Feeds the inputs of a case to its queries."""

from __future__ import annotations

from collections.abc import Sequence

from millstream.sql.testing.cases import Record
from millstream.sql.testing.checks import CheckError
from millstream.sql.testing.engine import Engine, StoredRecord
from millstream.text.escaping import error_text


def encoded(engine: Engine, records: Sequence[Record]) -> list[StoredRecord]:
    """Returns the bytes of the inputs of a case.

    Raises:
        CheckError: The format of an input's topic cannot have its key or value.
    """
    inputs = []
    for number, record in enumerate(records, 1):
        try:
            inputs.append(engine.encode(record))
        except (ValueError, TypeError, ArithmeticError) as error:
            raise CheckError(
                f"input {number} cannot be written to the topic {record.topic}: {error_text(error)}"
            ) from error
    return inputs


def feed(engine: Engine, records: Sequence[Record]) -> None:
    """Appends records to their topics, and runs the queries one after another, in the order of their creation.

    A query gets the inputs whose topics it reads, in the order of the file, then all records of the other topics that
    it reads: what INSERT VALUES and earlier queries have written. It never sees what a later query writes.
    """
    inputs = encoded(engine, records)
    for record in inputs:
        engine.append(record)
    given = {record.topic for record in inputs}
    for query in engine.queries:
        driver = engine.driver(query)
        for record in inputs:
            if record.topic in query.topics:
                driver.pipe(record)
        others = [topic for topic in query.topics if topic not in given]
        for record in [record for topic in others for record in engine.records(topic)]:
            driver.pipe(record)
