"""A store of millions of traces on PostgreSQL: its rows, the queries to it, and the server's work for them."""
