"""Bound what the judge uses up: allow each request before it is sent, or raise OverBudget."""
