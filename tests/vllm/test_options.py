"""The options that the recipe gives to vLLM, and those that this one has."""

from __future__ import annotations

import os
import re
import subprocess

from tests.conftest import REPOSITORY


def test_the_list_of_options_is_what_vllm_prints() -> None:
    command = [os.environ["REEF_VLLM"], "serve", "--help=all"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    listed = (REPOSITORY / "trainer" / "recipe" / "vllm_options.txt").read_text("ascii")
    assert set(re.findall(r"--[a-z0-9][a-z0-9-]*", shown)) == set(listed.split())
