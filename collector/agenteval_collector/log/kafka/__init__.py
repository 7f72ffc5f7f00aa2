"""Kafka as the log of several processes: requests go in by trace, complete traces by session; workers take both out.

Needs the extra `[kafka]`; only `wiring/` imports it, where `log.url` asks for it.
"""
