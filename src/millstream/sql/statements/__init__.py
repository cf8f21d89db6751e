"""Carries out statements: definitions change the catalog, and queries are planned."""
