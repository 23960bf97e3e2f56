"""The command line: `reef-release VERB`. Exit status 0: done; 1: the answer is no; 2: an error.

What a verb needs is imported when it is asked for, or only when it runs.
"""

from reef_release.cli.app import app, main

__all__ = ["app", "main"]
