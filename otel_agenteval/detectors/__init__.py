"""Loop detectors. In: the steps of an agent. Out: loops. Pure, and the same in the agent and in the collector."""
