"""Stand-ins for what lies beyond the collector, for tests and for trying it out."""
