"""vLLM behind the one engine shape: a process that stands in front of a running vLLM server.

Needs no torch, so it runs in vLLM's own environment or in the service's.
"""
