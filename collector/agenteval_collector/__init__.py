"""The collector: takes OTLP, assembles traces and sessions, scores them as they finish, and emits the scores."""
