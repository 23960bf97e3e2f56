"""Traffic: recorded calls, the turns they become, judgments on them, and batches of samples."""
