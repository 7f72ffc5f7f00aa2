"""Make the text of a request. A trace goes in, and messages come out in which all recorded content is data."""
