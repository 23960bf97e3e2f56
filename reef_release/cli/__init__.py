"""The command line: `reef-release VERB`. Exit status 0: done; 1: the answer is no; 2: an error.

Verbs import what they need when they run, so `--help` is quick.
"""

from reef_release.cli.app import app, main

__all__ = ["app", "main"]
