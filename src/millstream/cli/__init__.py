"""The command line `millstream`: topics, records, applications, their stores and progress.

`main` puts the commands together and turns every failure into a line or two on stderr. A module of each group of
commands imports what it works with when one of its commands runs, so that help and small commands are quick.
"""
