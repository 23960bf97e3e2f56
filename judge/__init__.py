"""The judge: scores completed turns from their users' reactions, and never promotes anything."""
