"""Evaluation: complete traces go in; committed outcomes, findings and session scores come out.

Everything here runs on one thread: reading, findings, evaluators, embedding, sessions and conversations.
"""
