"""Backups: a whole export, the bodies that it leaves out, and the way back into an empty database.

A backup is verified like any export, against the same anchor, before anything of it is believed.
What comes back is the log byte for byte: positions, times, hash chain and root are the same.
"""

from reef_release.backup.erasures import read_erasures
from reef_release.backup.layout import BackupManifest
from reef_release.backup.making import make_backup, write_keys
from reef_release.backup.recovering import Recovered, recover

__all__ = [
    "BackupManifest",
    "Recovered",
    "make_backup",
    "read_erasures",
    "recover",
    "write_keys",
]
