"""What people write: applications, streams, tables, windows and processors."""
