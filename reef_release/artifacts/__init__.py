"""Candidates' files: content-addressed blobs, and the admission of weights by their content.

Nothing in here imports torch, numpy or the safetensors library: what is admitted is decided
by reading bytes to the letter of the format.
"""
