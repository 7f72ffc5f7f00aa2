"""Retention: deletions and ages go in. The data that they are about leaves every file."""
