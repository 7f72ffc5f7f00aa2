"""Kafka as the log of several processes: requests go in by trace, complete traces by session. Workers take both out.

It needs the extra `[kafka]`. Only `wiring/` imports it, where `log.url` asks for it.
"""
