"""The durable log: requests come in as bytes, and leave for the assembly once they are on disk."""

from agenteval_collector.log.request_file import RequestFile
from agenteval_collector.log.request_log import RequestLog

__all__ = ["RequestFile", "RequestLog"]
