"""`python -m judge.scripted`: see `judge.scripted.server`."""

from __future__ import annotations

import argparse

from judge.scripted.backend import MODEL
from judge.scripted.server import serve

if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        prog="python -m judge.scripted", description="Serve the scripted judge over HTTP."
    )
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8090, help="0 takes a free one")
    parser.add_argument("--name", default=MODEL, help="the model's name for clients")
    given = parser.parse_args()
    serve(host=given.host, port=given.port, name=given.name)
