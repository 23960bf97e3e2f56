"""Everything that runs weights: the engines, the gate worker and the tiny policy.

The only package that imports torch; it speaks to the service over HTTP.
"""
