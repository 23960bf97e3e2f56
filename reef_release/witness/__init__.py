"""A small witness of transparency logs: cosigns what only ever grows, and remembers what it saw.

Whoever trusts a log of this service need not trust its word that everybody sees the same log: a
quorum of witnesses, run by others, has seen each checkpoint after the one before. `rules` is
the protocol without I/O, `memory` what a witness must not forget, `app` the HTTP service.
Source: c2sp.org/tlog-witness.
"""
