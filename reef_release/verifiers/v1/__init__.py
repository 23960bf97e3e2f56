"""The first version of every verifier, and everything that they read with.

Nothing in this package changes once a release has shipped it: a verdict recorded with answer@1
must come out the same for ever, or an old pass would stop being one. It imports nothing that may
change either, only `verifiers.check` and the errors. A later version is a new package beside this
one that copies what it needs.
"""
