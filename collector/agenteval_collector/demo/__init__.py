"""A demonstration: sample agents, instrumented for real, and a collector that scores them while they run."""
