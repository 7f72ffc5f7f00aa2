"""The interface for reading and reporting from outside: the HTTP API and the gRPC service (docs/api.md)."""
