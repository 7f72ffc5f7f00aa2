"""Live detection: spans go in as they arrive; loops, hung spans and dead agents come out while the trace still runs.

It runs on a thread of its own, apart from the evaluation, so that a verdict never waits for a score.
"""
