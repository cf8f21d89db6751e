"""The SQL shell: statements in, tables out."""
