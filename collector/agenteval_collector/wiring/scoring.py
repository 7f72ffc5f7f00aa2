"""Wires observation, evaluators and sessions as the settings want them; the same live and in a replay."""
