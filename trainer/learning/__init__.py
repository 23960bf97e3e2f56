"""From a batch of judged turns to new weights: one optimizer step after another, inside TRL.

It needs no service: `run_batch` takes a batch and directories and gives a directory. The worker
that claims batches, and the replay of a recorded one, both call it.
"""
