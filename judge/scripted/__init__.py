"""A judge made of rules instead of a model, for tests, demonstrations and as a baseline.

It reads the same prompt as a model and answers in the same form, over the same HTTP. It knows
what pupils say about homework (style, steps, result, thanks) in several languages, and how people
point at an earlier reply.
"""
