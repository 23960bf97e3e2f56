"""The pure core: events, the fold of the log, and the rule that moves the serving pointer.

Values in, decisions out. No I/O, no clock, no randomness, no torch.
"""
