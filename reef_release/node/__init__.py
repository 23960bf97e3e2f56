"""The serving node: follows a channel, verifies everything itself, and drives an engine.

It trusts one thing, the trust root it was given; the service is only where the bytes come
from. `trusted`, `leaves`, `ledger` and `grounds` hold the rules as pure functions of bytes;
`material`, `vault`, `releases` and `engine` do the input and output beside them; `node` takes
the steps and `run` repeats them.
"""
