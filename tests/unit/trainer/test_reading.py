from __future__ import annotations

from reef_release.verifiers.registry import verdict
from trainer.engines.protocol import Sampling
from trainer.engines.transformers_engine import TransformersEngine
from trainer.tiny.evaluate import read_reply
from trainer.tiny.problems import draw_many
from trainer.tiny.shipped import BETTER, FLATTERER, ORIGIN


def test_the_reading_here_agrees_with_the_gates_verifiers_on_sampled_replies() -> None:
    engine = TransformersEngine()
    seen = set()
    for directory in (ORIGIN, BETTER, FLATTERER):
        engine.load(directory)
        for seed, problem in enumerate(draw_many("gate", 60, seed=1)):
            sampling = Sampling(temperature=1.2, max_new_tokens=96)
            reply = engine.generate(problem.question, sampling, seed)
            if reply.finish_reason == "length":
                continue
            ours = read_reply(reply.text, problem.answer)
            specs = ("answer@1", "work_steps@1", "style@1")
            theirs = verdict(specs, reply.text, str(problem.answer))
            checks = tuple(theirs.checks[spec].passed for spec in specs)
            assert checks == (ours.correct, ours.shown, ours.clean), reply.text
            seen.add(checks)
    assert len(seen) >= 4
