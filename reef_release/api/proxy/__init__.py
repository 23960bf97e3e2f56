"""The recording proxy: chat calls go to the upstream as they came, and into the log.

    client ── routes/chat.py ── exchange.py ── upstream.py ── upstream
                                    │
                                 spool.py      begun, then ended: lines of journal.py on disk
                                    │
                                draining.py    in order, until the log has taken them
                                    │
                             api/recording.py  the one way into the log

An answer waits for the disk at its very end, within a bound, and for the log never.
"""
