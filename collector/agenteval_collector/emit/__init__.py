"""What leaves the collector: instruments, evaluation events, the Prometheus page, OTLP push and the watch feed."""
