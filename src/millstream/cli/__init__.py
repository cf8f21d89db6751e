"""The command line `millstream`: topics, records, applications, their stores and progress.

`main` assembles the commands, and prints every failure in a line or two on stderr. Commands import the modules they
need when they run, so that help and small commands start quickly.
"""
