"""What the outside reads and reports: the HTTP API and the gRPC service (docs/api.md)."""
