"""The checks from outside, on collectors that share the work over Kafka and PostgreSQL."""
