"""The text of a request. In goes a trace, out come messages in which all that was recorded is data."""
