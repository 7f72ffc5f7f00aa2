"""Runtime that every package stands on: the clock, errors, queues, and threads."""
