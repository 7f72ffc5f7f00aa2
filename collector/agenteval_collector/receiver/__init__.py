"""Receiver: OTLP requests over gRPC and HTTP go in, answers come out.

A request is in the log before it is acknowledged.
"""
