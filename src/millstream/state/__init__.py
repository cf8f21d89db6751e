"""State stores: what a task remembers, by key, by window, by session, by version, and until later.

`spec` says what a store is, `memory` opens it, `api` has the protocols that the engine uses, and `views` has what
processors and tests see. `paged` keeps stores beyond the life of a process, in a remote map, and in memory only what
fits. Nothing outside this package knows how they are kept.
"""
