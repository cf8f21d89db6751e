"""`millstream dlq`: lists, shows and replays dead letters."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from millstream.cli.exits import UsageError
from millstream.cli.log_access import open_data
from millstream.cli.options import Data, Execute, Output, Yes, command
from millstream.cli.printing import format_time, print_json, print_note, print_rows, print_text
from millstream.cli.serdes import KeySerde, ValueSerde, serde_named, serdes_of
from millstream.cli.user_input import confirm
from millstream.schemas.json_values import as_field, as_headers, as_text
from millstream.serde import STRING
from millstream.text.escaping import indented, printable, readable

if TYPE_CHECKING:
    from millstream.log import DeadLetter, DeadLetterFilter, ReplayResult

_SHOWN = 50
_MESSAGE_WIDTH = 60

dlq = typer.Typer(no_args_is_help=True, help="Dead letters: list and show failed records, and replay them.")

Topic = Annotated[str, typer.Argument(metavar="TOPIC", help="The dead-letter topic.")]
Exceptions = Annotated[
    str | None,
    typer.Option(
        "--exception", "-e", metavar="CLASS", help="Only those of this exception, with or without its module."
    ),
]
Sources = Annotated[
    str | None, typer.Option("--source", "-s", metavar="TOPIC", help="Only those of records from this topic.")
]
Contracts = Annotated[
    str | None, typer.Option("--contract", metavar="NAME", help="Only those of records that violate this contract.")
]
Rules = Annotated[
    str | None, typer.Option("--rule", metavar="NAME", help="Only those of records that violate this rule.")
]


@command(
    dlq,
    "list",
    "millstream dlq list",
    "millstream dlq list dead-payments --pending --exception KeyError",
    "millstream dlq list dead-payments --summary --output json",
)
def list_(
    topic: Annotated[str | None, typer.Argument(metavar="[TOPIC]", help="The dead-letter topic.")] = None,
    exception: Exceptions = None,
    source: Sources = None,
    contract: Contracts = None,
    rule: Rules = None,
    pending: Annotated[bool, typer.Option("--pending", help="Only dead letters that were not replayed yet.")] = False,
    summary: Annotated[bool, typer.Option("--summary", help="Count them by exception and source.")] = False,
    limit: Annotated[
        int,
        typer.Option("--limit", "-n", min=1, help="The largest number of dead letters, those of the latest records."),
    ] = _SHOWN,
    data: Data = None,
    output: Output = "table",
) -> None:
    """Lists the dead letters of a topic; without a topic, the dead-letter topics.

    A topic is a dead-letter topic if its last records have the headers of dead letters, or if dead letters of it were
    replayed. The time is that of the failed record. A record that failed again after a replay has one dead letter for
    each failure; the last one shows how often it returned.
    """
    from millstream.log import DeadLetters, dead_letter_topics

    selection = _selection(exception, source, contract, rule)
    with open_data(data) as log:
        if topic is None:
            topics = dead_letter_topics(log)
            letters = [letter for name in topics for letter in DeadLetters(log, name).read(selection)]
        else:
            letters = list(DeadLetters(log, topic).read(selection))
    if pending:
        letters = [letter for letter in letters if letter.pending]
    if not letters and output == "table":
        print_note("there are no dead letters")
    elif summary:
        _count(letters, output)
    elif topic is None:
        _count_topics(letters, output)
    else:
        _list(letters, limit, output)


@command(
    dlq,
    "show",
    "millstream dlq show dead-payments 0:17",
    "millstream dlq show dead-payments 0:17 --app payments.py --output json",
)
def show_(
    topic: Topic,
    place: Annotated[str, typer.Argument(metavar="PARTITION:OFFSET", help="The dead letter, as `dlq list` shows it.")],
    key_serde: KeySerde = None,
    value_serde: ValueSerde = None,
    app: Annotated[
        str | None,
        typer.Option("--app", metavar="APP", help="Use the serdes of the source topic in this application."),
    ] = None,
    data: Data = None,
    output: Output = "table",
) -> None:
    """Shows a dead letter: the exception with its stack trace, and the failed record."""
    from millstream.log import DeadLetters

    partition, offset = _place(place)
    with open_data(data) as log:
        letter = DeadLetters(log, topic).get(partition, offset)
    keys = values = STRING
    if app is not None:
        if letter.source is None:
            raise UsageError("--app: the dead letter has no header with its source topic")
        keys, values = serdes_of(app, letter.source.topic)
    if key_serde is not None:
        keys = serde_named(key_serde, "--key-serde")
    if value_serde is not None:
        values = serde_named(value_serde, "--value-serde")
    if output == "json":
        record = {**as_field("key", letter.key, keys), **as_field("value", letter.value, values)}
        print_json({**_facts(letter), "stacktrace": letter.stacktrace, **record, "headers": as_headers(letter.headers)})
        return
    facts = {
        "letter": f"{topic} {place}, {_state(letter)}",
        "time": format_time(letter.timestamp),
        "source": _source(letter),
        "exception": letter.exception,
        "message": letter.message,
        **_contract(letter),
        "returned": letter.returned or None,
        "key": as_text(letter.key, keys),
        "value": as_text(letter.value, values),
    }
    for name, value in facts.items():
        if value is not None:
            print_text(f"{name:<10} {readable(str(value))}")
    for header, content in letter.original_headers:
        print_text(f"{'header':<10} {printable(header)}: {as_text(content, STRING)}")
    if letter.stacktrace:
        print_text("\n" + indented(letter.stacktrace))


@command(
    dlq,
    "replay",
    "millstream dlq replay dead-payments",
    "millstream dlq replay dead-payments --exception KeyError --execute",
    "millstream dlq replay dead-payments 0:17 0:19 --execute --yes",
)
def replay(
    topic: Topic,
    places: Annotated[
        list[str] | None, typer.Argument(metavar="[PARTITION:OFFSET]...", help="Only these dead letters.")
    ] = None,
    exception: Exceptions = None,
    source: Sources = None,
    contract: Contracts = None,
    rule: Rules = None,
    limit: Annotated[
        int | None, typer.Option("--limit", "-n", min=1, help="The largest number of dead letters.")
    ] = None,
    again: Annotated[bool, typer.Option("--again", help="Include those that were replayed before.")] = False,
    now: Annotated[
        bool, typer.Option("--now", help="Give records the current time instead of their own timestamps.")
    ] = False,
    execute: Execute = False,
    yes: Yes = False,
    data: Data = None,
    output: Output = "table",
) -> None:
    """Writes failed records back to their source topic and partition, each dead letter once.

    Each dead letter is replayed exactly once even if the command is killed, repeated, or run twice at the same time:
    the later run fences the earlier one. Dead letters that are skipped can be replayed later. The record keeps its key,
    value, timestamp and headers; the header __millstream.replay identifies its dead letter. Without --execute the
    command only prints what it would do.

    Dead letters stay in their topic. Those whose source topic or partition no longer exists are skipped and counted.
    """
    from millstream.log import DeadLetters

    selection = _selection(exception, source, contract, rule, places)
    with open_data(data) as log:
        letters = DeadLetters(log, topic)
        for partition, offset in sorted(selection.places or ()):
            letters.get(partition, offset)  # raises an error for a missing dead letter
        planned = letters.replay(selection, limit=limit, again=again, now=now, dry_run=True)
        if not execute or not planned.replayed:
            _print_replay(topic, planned, output, done=False)
            if execute or not planned.replayed:
                print_note("there is nothing to replay" if again else "there is nothing to replay; see also --again")
            else:
                print_note("nothing was done; add --execute to replay them")
            return
        if not yes:
            for name, count in planned.replayed.items():
                print_note(f"  - {_letters(count)} to topic {name}")
        confirm(f"Replay {_letters(planned.total)} of {topic}?", yes=yes)
        _print_replay(topic, letters.replay(selection, limit=limit, again=again, now=now), output, done=True)


def _print_replay(topic: str, replay: ReplayResult, output: str, *, done: bool) -> None:
    if output == "json":
        print_json({"topic": topic, "done": done, "letters": replay.replayed, "refused": replay.refused})
        return
    for name, count in replay.replayed.items():
        verb = ("was" if count == 1 else "were") if done else "would be"
        print_text(f"{_letters(count)} of {topic} {verb} replayed to {name}")
    for reason, count in replay.refused.items():
        print_note(f"{_letters(count)} cannot be replayed: {reason}")


def _letters(count: int) -> str:
    return f"{count} dead letter{'' if count == 1 else 's'}"


def _list(letters: list[DeadLetter], limit: int, output: Any) -> None:
    letters.sort(key=lambda letter: (letter.timestamp, letter.partition, letter.offset))
    shown = letters[-limit:]
    if output == "json":
        for letter in shown:
            print_json(_facts(letter))
        return
    columns = ["Letter", "Time", "Source", "State", "Returned", "Exception", "Message"]
    print_rows(columns, [_row(letter) for letter in shown], output)
    if len(shown) < len(letters):
        print_note(f"{_letters(len(letters) - len(shown))} of earlier records not shown; --limit shows more")


def _row(letter: DeadLetter) -> list[Any]:
    message = (letter.message or "").partition("\n")[0]
    if len(message) > _MESSAGE_WIDTH:
        message = message[: _MESSAGE_WIDTH - 1] + "…"
    place, time = f"{letter.partition}:{letter.offset}", format_time(letter.timestamp)
    return [place, time, _source(letter), _state(letter), letter.returned, letter.exception, message or None]


def _facts(letter: DeadLetter) -> dict[str, Any]:
    source = letter.source
    return {
        "topic": letter.topic,
        "partition": letter.partition,
        "offset": letter.offset,
        "timestamp": letter.timestamp,
        "source": None if source is None else source._asdict(),
        "state": _state(letter),
        "returned": letter.returned,
        "exception": letter.exception,
        "message": letter.message,
        **({} if letter.contract is None else {"contract": letter.contract._asdict()}),
    }


def _contract(letter: DeadLetter) -> dict[str, Any]:
    """The contract that a record violates, for `show`."""
    if letter.contract is None:
        return {}
    name, rule, reason, schema_id = letter.contract
    return {
        "contract": name,
        "rule": rule,
        "reason": reason,
        "schema": None if schema_id is None else f"id {schema_id}",
    }


def _count(letters: Iterable[DeadLetter], output: Any) -> None:
    """Prints the number of dead letters by topic, exception and source."""
    groups: dict[tuple[str, str, str], list[DeadLetter]] = {}
    for letter in letters:
        source = "" if letter.source is None else letter.source.topic
        groups.setdefault((letter.topic, letter.exception or "", source), []).append(letter)
    columns = ["Topic", "Exception", "Source", "Letters", "Pending", "Last"]
    ordered = sorted(groups.items(), key=lambda group: (-len(group[1]), group[0]))
    print_rows(
        columns, [[*(name or None for name in names), *_counts(group, output)] for names, group in ordered], output
    )


def _count_topics(letters: Iterable[DeadLetter], output: Any) -> None:
    topics: dict[str, list[DeadLetter]] = {}
    for letter in letters:
        topics.setdefault(letter.topic, []).append(letter)
    print_rows(
        ["Topic", "Letters", "Pending", "Last"], [[name, *_counts(topics[name], output)] for name in topics], output
    )


def _counts(letters: list[DeadLetter], output: str) -> list[Any]:
    last = max(letter.timestamp for letter in letters)
    return [len(letters), sum(letter.pending for letter in letters), last if output == "json" else format_time(last)]


def _state(letter: DeadLetter) -> str:
    if letter.source is None:
        return "no source"
    return "replayed" if letter.replayed else "pending"


def _source(letter: DeadLetter) -> str | None:
    if letter.source is None:
        return None
    topic, partition, offset = letter.source
    return f"{topic} {partition}:{'?' if offset is None else offset}"


def _selection(
    exception: str | None, source: str | None, contract: str | None, rule: str | None, places: list[str] | None = None
) -> DeadLetterFilter:
    from millstream.log import DeadLetterFilter

    chosen = frozenset(map(_place, places)) if places else None
    return DeadLetterFilter(exception, source, chosen, contract, rule)


def _place(text: str) -> tuple[int, int]:
    partition, colon, offset = text.partition(":")
    if not (colon and text.isascii() and partition.isdecimal() and offset.isdecimal()):
        raise UsageError(f"{text!r} is not a dead letter", hint="write partition and offset, such as 0:17")
    return int(partition), int(offset)
