"""The HTTP API and the gRPC service: requests go in; documents, labels and run reports come out (docs/api.md)."""
