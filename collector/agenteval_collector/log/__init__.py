"""The durable log of requests: what is acknowledged is in it."""

from agenteval_collector.log.request_log import RequestLog

__all__ = ["RequestLog"]
