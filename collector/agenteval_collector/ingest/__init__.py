"""Ingest: OTLP requests over gRPC and HTTP go in; answers come out, and what was accepted goes on to the assembly.

A request is on disk, in the log, before it is acknowledged.
"""
