"""Signatures: weights, gate decisions, policies, checkpoints, the current document, the root.

Standard formats over `cryptography` and `tuf`, nothing invented. Every `verify_*` and `open_*`
takes bytes or values that an attacker may have made, and either returns what they verifiably
say or raises `SignatureRejected` with a reason; there is no third outcome. Which keys may be
trusted at which position of the log is for the caller to say.
"""
