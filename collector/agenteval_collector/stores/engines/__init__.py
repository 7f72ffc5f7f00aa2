"""The databases that can hold a tenant's rows, one module for each. A module has only what its database does
differently.

The modules beside this folder write SQL that all of these databases understand.
"""

from agenteval_collector.stores.engines.ports import DUTY_LASTS, Database, Use, WriterLocks

__all__ = ["DUTY_LASTS", "Database", "Use", "WriterLocks"]
