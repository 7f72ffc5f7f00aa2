"""The durable log of requests: what is acknowledged is in it."""

from agenteval_collector.log.request_log import LoggedRequest, RequestLog, Signal

__all__ = ["LoggedRequest", "RequestLog", "Signal"]
