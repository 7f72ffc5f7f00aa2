"""Runtime that every package stands on: clock, errors, threads with their inboxes, memory, files and SQLite."""
