"""What the log means: the fold with its real checks, kept current beside the log."""
