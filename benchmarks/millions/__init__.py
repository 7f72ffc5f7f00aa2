"""A store of millions of traces on PostgreSQL: how it is filled, what is asked of it, and what the server does then."""
