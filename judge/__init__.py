"""The judge: a turn and what came after it into votes, and votes into a recorded judgment.

A separate program with frozen weights behind any OpenAI-style endpoint; it reaches the service
over HTTP only and can promote nothing.
"""
