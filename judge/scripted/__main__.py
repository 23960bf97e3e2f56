"""`python -m judge.scripted`: see `judge.scripted.server`."""

from __future__ import annotations

import argparse

from judge.scripted.backend import MODEL
from judge.scripted.faults import Faults
from judge.scripted.server import serve
from reef_release.errors import SettingsError

if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        prog="python -m judge.scripted", description="Serve the scripted judge over HTTP."
    )
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8090, help="0 takes a free one")
    parser.add_argument("--name", help="the model's name for clients")
    parser.add_argument("--flip-votes", type=float, default=0.0, help="share of wrong signs")
    parser.add_argument("--drop-hints", type=float, default=0.0, help="share of turns without any")
    given = parser.parse_args()
    try:
        faults = Faults(flip_votes=given.flip_votes, drop_hints=given.drop_hints)
    except SettingsError as error:
        parser.error(str(error))
    name = given.name or MODEL + faults.suffix
    serve(host=given.host, port=given.port, name=name, faults=faults)
