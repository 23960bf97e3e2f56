"""The objective of a training step, as pure functions of tensors.

Nothing here knows a model, a tokenizer or a trainer. What is masked has no influence, whatever
stands there: it is replaced before any arithmetic, so neither the loss nor a gradient can become
NaN through it.
"""
