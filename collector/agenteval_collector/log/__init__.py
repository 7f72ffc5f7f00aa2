"""The durable log: requests come in as bytes, and go on to the assembly once they are on disk."""

from agenteval_collector.log.request_file import RequestFile
from agenteval_collector.log.request_log import RequestLog

__all__ = ["RequestFile", "RequestLog"]
