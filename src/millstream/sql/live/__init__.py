"""Runs the queries of a catalog live, on workers that they share; used by the shell and by servers."""
