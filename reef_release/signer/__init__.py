"""The signer: holds the release key and uses it only for weights whose gate passed.

It reads no weights. A candidate's id is the digest of the statement that is signed, and the
gate's decision names that id, so digests are all that is needed.
"""

from reef_release.signer.run import SignerConfig, run_signer

__all__ = ["SignerConfig", "run_signer"]
