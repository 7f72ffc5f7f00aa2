"""Loop detection in the agent's process. In: spans that start and end. Out: verdicts for the agent."""
