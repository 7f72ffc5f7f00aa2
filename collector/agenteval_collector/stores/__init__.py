"""Rows and SQL: keep traces, sessions and runs in a database, SQLite or PostgreSQL.

In: commits, reports and labels. Out: what the pipeline needs to go on, and snapshots for queries from outside.
"""
