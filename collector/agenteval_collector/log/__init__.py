"""The durable log: requests come in as bytes, and go on to the assembly once they are on disk."""
