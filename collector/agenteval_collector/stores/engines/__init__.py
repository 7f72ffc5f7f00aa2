"""The databases that a tenant's rows may be in, a module for each: what they do in ways of their own.

The modules beside this folder write SQL that all of them understand.
"""

from agenteval_collector.stores.engines.ports import DUTY_LASTS, Database, Use, WriterLocks

__all__ = ["DUTY_LASTS", "Database", "Use", "WriterLocks"]
