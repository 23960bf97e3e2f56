"""The homework stream: people who bring problems to an endpoint and react to its replies.

What always holds: everything here speaks to an OpenAI-style endpoint over HTTP and to nothing
else; it reads replies by its own rules and shares none with the gate or the judge; it needs no
training stack, and the student's part is the same for the same seed.
"""
