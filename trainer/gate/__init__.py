"""The gate worker: runs candidate and incumbent on drawn tasks and signs what follows.

It never sees an answer and decides nothing: it posts raw replies, recomputes the decision
from the verdicts it was told, and signs only that.
"""
