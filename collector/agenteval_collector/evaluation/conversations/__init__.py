"""Conversations that no id names: complete traces go in, and the session of each comes out.

Traces are joined by the messages that their models were sent, and by the replies.
"""
