"""Live events over HTTP: changes of stores, records of topics, reports of applications, and alerts.

| module | contents |
| --- | --- |
| `routes` | the route, and the sending of a stream |
| `channels`, `positions` | the names of channels, and the ids of events |
| `sources` | the partitions that a channel reads, the rights of the client, and where it begins |
| `hub` | opens and closes streams; alerts are published here |
| `streams` | one client: its positions, and the text that it is sent |
| `feeds` | the last events of a source, which all streams share |
| `following`, `reports` | the pollers: of partitions, and of applications |
| `encoding` | records and rows to JSON |

**Each source is read once.** A thread follows all partitions that any stream needs, encodes each record, and appends
it to the *feed* of the partition, which has its last 2,000 events (at most 1 MiB; all feeds 64 MiB). Streams have no
queues, but a position in each feed. So a thousand clients of a channel cost one read and one encoding, and a client
that does not read its socket costs no memory but for what it was sent last (64 KiB, or one larger event).

**Beginning and catching up.** A stream that begins at an earlier offset reads the log by itself, in parts, as fast as
its client takes them, until it reaches the feed. From then on it must keep up: if the feed has dropped its next event,
the client gets an event `missed` with the offsets that were left out, and continues at the present. The thread waits
up to 100 ms for clients that take what they are sent, and never for one whose socket is full.

**Changes of stores are the records of changelogs**, not of views: a view has rows, but no order of changes. A changelog
has every committed change with an offset, in the order of the commits of its partition, on the embedded log and on
Kafka. So a client that keeps up gets every committed change of a key once, in order; a commit has at most one change of
a key-value row, the last. The expiry of rows of windows, sessions and versions is no change.

**Resuming.** The id of an event has the position after it in every channel (see `positions`). Any server of the same
data continues from it. The reports of applications have no position: each event has the whole content, and the latest
one is sent at the begin. Alerts continue as long as the same server runs.
"""
