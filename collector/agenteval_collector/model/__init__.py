"""Types that pass between the packages of the collector."""
