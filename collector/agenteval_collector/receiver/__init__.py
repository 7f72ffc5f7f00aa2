"""OTLP in: gRPC and HTTP, traces and logs. Everything is in the log before it is acknowledged."""
