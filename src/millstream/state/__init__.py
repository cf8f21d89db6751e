"""State stores of tasks: key-value, window, session and versioned stores, and buffers.

| module | contents |
| --- | --- |
| `spec` | `StoreSpec`, the definition of a store, and `ChangelogRecord` |
| `api` | the protocols that operators use |
| `memory` | stores whose rows are all in memory; `open_store` |
| `paged` | stores whose rows are in pages of a remote map, with a page cache in memory |
| `coded` | a layer that holds keys or values as bytes, where they are mutable |
| `stores` | the interfaces that processors, tests and queries use, named as in Kafka Streams |
"""
