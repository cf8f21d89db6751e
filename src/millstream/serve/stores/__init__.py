"""Interactive queries: the rows of the stores of applications over HTTP, as of their last commit.

| module | contents |
| --- | --- |
| `definitions` | the stores of an application, as its last topology has them |
| `serdes`, `sql_serdes` | the serdes of a store, from their recorded names |
| `codec` | keys and rows as JSON |
| `cursors` | the place at which the next page continues |
| `positions` | waits for a commit |
| `reader` | reads rows and their position in one snapshot |
| `routes` | the routes of a store |
| `kafka_streams` | the paths of the examples of Kafka Streams |
"""
