"""A real Kafka broker for tests."""
