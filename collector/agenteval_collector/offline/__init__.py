"""Replay of recordings: it scores their traces and sessions, and checks the least values that figures must reach."""
