"""Models behind one interface, wrapped by limits, retries and metering."""
