"""Emit news: committed outcomes and findings go in; instruments, events, OTLP pushes and the watch feed come out."""
