"""The homework recipe on GPUs, looked over on a machine that has none."""
