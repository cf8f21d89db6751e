"""The user-facing API: applications, streams, tables, windows and processors."""
