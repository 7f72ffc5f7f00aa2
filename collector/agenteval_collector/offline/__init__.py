"""Recordings in, scored traces and sessions out: replay and the least values that it must reach."""
