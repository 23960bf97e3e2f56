"""The tiny policy: a 0.2 M parameter Qwen3 that does two-step homework sums on a CPU.

It exists so that the demo, the drill and the tests run against real weights, real tokens and
real training instead of stand-ins. Everything it learns from is generated here.
"""
