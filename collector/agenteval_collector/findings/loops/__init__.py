"""Find the loops of agents.

Spans go in as they arrive, and complete traces follow. Loops come out, each kept and told once.
"""
