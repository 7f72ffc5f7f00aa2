"""What is known of traces, sessions and runs, durable."""

from agenteval_collector.stores.queries import StoreQueries
from agenteval_collector.stores.store import TENANT, Store

__all__ = ["TENANT", "Store", "StoreQueries"]
