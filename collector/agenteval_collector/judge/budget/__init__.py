"""The bounds of the judge. In goes each request before it leaves, out comes leave to send it, or OverBudget."""
