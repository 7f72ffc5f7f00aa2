"""Loops in the agent itself: spans that end go in, verdicts for the agent come out."""
