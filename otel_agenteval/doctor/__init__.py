"""`agenteval doctor`: check the way of a span, from this environment's instrumentation to what the collector has of it.

It needs the client alone, so that it runs where the agent does. In: addresses and the environment; out: checks.
"""
