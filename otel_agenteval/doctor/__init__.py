"""The command `agenteval doctor`: it checks the way of a span from this environment's instrumentation to the collector.

The package needs the client only, so that it runs where the agent runs. It takes addresses and the environment, and
gives a list of checks. `first_minute` is the check that every processor makes.
"""
