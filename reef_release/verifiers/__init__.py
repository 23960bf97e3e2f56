"""Objective checks of a reply, versioned and pure: no I/O, no clock, no randomness.

`registry.verdict(["answer@1", ...], reply, answer)` is the one entry; `run.run_lines` does the
same over JSON lines. The shipped versions live in packages that never change (`v1`).
"""
