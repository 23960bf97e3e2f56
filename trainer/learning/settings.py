"""How a batch is trained: every number that decides what comes out, in one value.

What always holds: a value that exists can be followed to the letter, and the same batch,
directories, settings and seed give the same weights on the same machine.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from reef_release.errors import SettingsError
from trainer.learning.watches import Bounds
from trainer.objective.settings import ObjectiveSettings, require_between, require_one_of

__all__ = [
    "AdamSettings",
    "HintRendering",
    "LoraSettings",
    "Objective",
    "Precision",
    "TrainingSettings",
    "settings_text",
]

Objective = Literal["two-term", "trl"]
Precision = Literal["float32", "bfloat16"]
HintPlace = Literal["last", "last_user"]
_OURS = frozenset(
    {
        "add_generation_prompt",
        "continue_final_message",
        "conversation",
        "max_length",
        "padding",
        "return_assistant_tokens_mask",
        "return_dict",
        "return_tensors",
        "tokenize",
        "tokenizer_kwargs",
        "truncation",
    }
)
"""Arguments of the tokenizer's, not of its template's."""


class _Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


class HintRendering(_Settings, frozen=True, kw_only=True):
    """How a hint is put into the teacher's prompt. The defaults are what the tiny model knows."""

    template: str = "\n[user's hint / instruction]\n{hint}"
    """What is appended to a message; `{hint}` stands in it once."""
    place: HintPlace = "last"
    """To which message: the last one, or the last one of the user."""
    chat_template_arguments: dict[str, Any] = {}
    """What the server gives to its chat template besides the messages."""
    require_same_prompt: bool = True
    """Refuse a sample whose prompt, rendered here from its messages without a hint, is not the
    token ids recorded: those could be of a task that nobody has read."""

    def __post_init__(self) -> None:
        require_one_of("hints.place", self.place, HintPlace)
        if self.template.count("{hint}") != 1:
            raise SettingsError(
                f"hints.template is {self.template!r}.",
                next_step="Write {hint} once where the hint belongs.",
            )
        taken = sorted(_OURS & self.chat_template_arguments.keys())
        if taken:
            raise SettingsError(
                f"hints.chat_template_arguments sets {', '.join(taken)}, which is no argument of "
                "a template.",
                next_step="Leave that out: prompts are always token ids, ready for a reply.",
            )


class AdamSettings(_Settings, frozen=True, kw_only=True):
    """AdamW with decoupled weight decay on matrices only. Source: arXiv 1711.05101."""

    learning_rate: float = 3e-4
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8
    weight_decay: float = 0.0
    max_grad_norm: float = 1.0
    """A longer gradient is scaled down to this."""

    def __post_init__(self) -> None:
        require_between("adam.learning_rate", self.learning_rate, 0.0, 1.0, above=True)
        require_between("adam.beta1", self.beta1, 0.0, 0.999999)
        require_between("adam.beta2", self.beta2, 0.0, 0.999999)
        require_between("adam.epsilon", self.epsilon, 0.0, 1.0, above=True)
        require_between("adam.weight_decay", self.weight_decay, 0.0, 1.0)
        require_between("adam.max_grad_norm", self.max_grad_norm, 0.0, 1e6, above=True)


class LoraSettings(_Settings, frozen=True, kw_only=True):
    """Train an adapter on the origin. Source: arXiv 2106.09685."""

    rank: int = 8
    alpha: float = 16
    targets: tuple[str, ...] = (
        "q_proj",
        "k_proj",
        "v_proj",
        "o_proj",
        "gate_proj",
        "up_proj",
        "down_proj",
    )

    def __post_init__(self) -> None:
        require_between("lora.rank", self.rank, 1, 4096)
        require_between("lora.alpha", self.alpha, 0.0, 1e6, above=True)
        if not self.targets or "" in self.targets:
            raise SettingsError(
                "lora.targets is empty, or one of them is.",
                next_step="Name the layers that get an adapter.",
            )


class TrainingSettings(_Settings, frozen=True, kw_only=True):
    """The whole of it; see the parts."""

    objective: Objective = "two-term"
    """`trl`: TRL's reverse KL in place of the distillation term, to compare with. Its policy
    term, hints and weights are those of `terms`; it knows neither support nor clamps."""
    terms: ObjectiveSettings = ObjectiveSettings()
    epochs: int = 4
    """Optimizer steps per batch; all see the whole batch."""
    adam: AdamSettings = AdamSettings()
    micro_batch: int = 16
    """At most so many samples go through the model at once."""
    max_sample_tokens: int = 8192
    """A sample longer than this, its prompt with the hint included, is skipped."""
    hints: HintRendering = HintRendering()
    teach_unhinted: bool = True
    """Whether a sample without a hint is distilled too, from the origin without one: it holds the
    policy where it began, also where the score says that it has moved rightly."""
    bounds: Bounds = Bounds()
    lora: LoraSettings | None = None
    """None: all parameters are trained."""
    precision: Precision = "float32"
    """Of the arithmetic; parameters and Adam's state are float32 always."""
    gradient_checkpointing: bool = False
    threads: int = 1
    """Torch's, on a CPU; another number may round otherwise."""

    def __post_init__(self) -> None:
        require_one_of("objective", self.objective, Objective)
        require_one_of("precision", self.precision, Precision)
        require_between("epochs", self.epochs, 1, 1000)
        require_between("micro_batch", self.micro_batch, 1, 65536)
        require_between("max_sample_tokens", self.max_sample_tokens, 2, 10**7)
        require_between("threads", self.threads, 1, 1024)
        if self.objective == "trl":
            self._require_fit_for_trl()

    def _require_fit_for_trl(self) -> None:
        terms, plain = self.terms, ObjectiveSettings()
        unread = [
            name
            for name in ("support", "difference_clamp", "log_ratio_clamp", "penalty")
            if getattr(terms, name) != getattr(plain, name)
        ]
        if terms.hint_choice == "token_optimal":
            unread.append("hint_choice")
        if unread:
            raise SettingsError(
                f"TRL's objective cannot follow {', '.join(unread)}.",
                next_step='Leave them at their defaults, or use the objective "two-term".',
            )


def settings_text(settings: TrainingSettings) -> dict[str, str]:
    """The settings as an event has them: a dotted name to the value's JSON."""
    flat: dict[str, str] = {}

    def visit(prefix: str, value: Any) -> None:
        if isinstance(value, dict) and prefix != _OPAQUE:
            for name, inner in value.items():
                visit(f"{prefix}.{name}" if prefix else name, inner)
        else:
            flat[prefix] = msgspec.json.encode(value).decode()

    visit("", msgspec.to_builtins(settings))
    return flat


_OPAQUE = "hints.chat_template_arguments"
"""Its names are another program's, and may have dots."""
