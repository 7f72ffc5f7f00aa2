"""Doors: who calls, and what they may do. In: keys, certificates, connections. Out: callers, or a refusal before a
place, a body or a buffer is given."""
