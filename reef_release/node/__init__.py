"""The serving node: follows a channel, verifies everything itself, and drives an engine.

It trusts one thing, the trust root it was given; the service is only where the bytes come
from. The rules are pure functions of bytes: `trusted` (roots, documents, checkpoints) and
`grounds` (why a release may be served) with the modules that they name. The input and output
stands beside them: `material`, `vault`, `releases`, `engine`. `node` takes the steps and `run`
repeats them.
"""
