"""Helps both packages; no part of the API. Holds a bounded map, functions on texts, and cheap dataclasses."""
