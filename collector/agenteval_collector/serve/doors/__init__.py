"""Doors: find out who calls, and what they may do.

Keys, certificates and connections go in. Callers come out, or a refusal before a slot, a body or a buffer is given.
"""
