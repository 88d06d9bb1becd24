"""Models behind one seam, wrapped by limits, retries and metering."""
