"""A running vLLM server, by the routes of its that a swap and a request need.

What always holds: an answer that is not of the expected shape is an error. The routes are those
of vLLM 0.31 and 0.32 with ``VLLM_SERVER_DEV_MODE=1`` and, for adapters,
``VLLM_ALLOW_RUNTIME_LORA_UPDATING=True``; nothing but the adapter process may reach them.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Any, TypeVar

import httpx
import msgspec

from reef_release.domain.reasons import Reason
from reef_release.errors import BadRequest, NotFound, ReefError, Refused, Unavailable
from trainer.engines.vllm.answers import Cards, Info, Reset, Scores, Version

__all__ = ["Started", "VllmServer", "problem_of", "unreachable"]

_T = TypeVar("_T")
_SHORT_S = 30.0
_SWAP_S = 900.0
_REPLY_S = 3600.0
_RESTART = "Look at vLLM's log and restart it; then load a release again."


class Started(msgspec.Struct, frozen=True, kw_only=True):
    """What vLLM was started with."""

    directory: str
    """Where it read model and tokenizer."""
    name: str
    """What it calls the full model."""
    context_tokens: int
    adapters: tuple[str, ...]
    takes_adapters: bool


class VllmServer:
    """Every method raises ``Unavailable`` when vLLM cannot be reached or fails, ``BadRequest`` or
    ``NotFound`` when it refuses."""

    def __init__(self, base_url: str, *, transport: httpx.AsyncBaseTransport | None = None) -> None:
        """``transport`` replaces the network, for tests."""
        self._http = httpx.AsyncClient(base_url=base_url, timeout=_SHORT_S, transport=transport)

    async def __aenter__(self) -> VllmServer:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._http.aclose()

    async def started(self) -> Started:
        """How it was started. Raises ``Refused`` when log-probabilities or weights would be
        others than those that a release stands for."""
        cards = (await self._json("GET", "/v1/models", Cards)).data
        base = [card for card in cards if card.parent is None]
        info = await self._json("GET", "/server_info?config_format=json", Info, wait_s=_SWAP_S)
        config = info.vllm_config
        model = config.model_config
        wrong = {
            "--logprobs-mode must be processed_logprobs": model.logprobs_mode
            != "processed_logprobs",
            "--tokenizer must not be given": any(card.root != model.tokenizer for card in base),
            "--hf-overrides must not be given": bool(model.hf_overrides),
            "--trust-remote-code must not be given": model.trust_remote_code,
            "--data-parallel-size must be 1": config.parallel_config.data_parallel_size != 1,
        }
        reasons = [Reason(code="vllm-options", message=each) for each in wrong if wrong[each]]
        if len(base) != 1:
            reasons.append(Reason(code="vllm-options", message="--served-model-name: give one"))
        if reasons:
            raise Refused(
                "vLLM runs with other options than it must",
                reasons=reasons,
                next_step="Restart vLLM as docs/vllm.md says.",
            )
        return Started(
            directory=base[0].root,
            name=base[0].id,
            context_tokens=model.max_model_len,
            adapters=tuple(card.id for card in cards if card.parent is not None),
            takes_adapters=config.lora_config is not None,
        )

    async def pause(self) -> None:
        """Wait for running requests, then begin no other."""
        await self._call("POST", "/pause?mode=wait", wait_s=_SWAP_S)

    async def resume(self) -> None:
        """Begin requests again."""
        await self._call("POST", "/resume")

    async def reload(self, directory: str) -> None:
        """Read the weights of the full model anew. A failure may end vLLM."""
        body = {"method": "reload_weights", "kwargs": {"weights_path": directory}}
        await self._call("POST", "/collective_rpc", body, wait_s=_SWAP_S)

    async def load_adapter(self, name: str, directory: str) -> None:
        """Serve a LoRA adapter as the model ``name``."""
        body = {"lora_name": name, "lora_path": directory}
        await self._call("POST", "/v1/load_lora_adapter", body, wait_s=_SWAP_S)

    async def unload_adapter(self, name: str) -> None:
        """Forget an adapter."""
        await self._call("POST", "/v1/unload_lora_adapter", {"lora_name": name})

    async def forget_prefixes(self) -> None:
        """Drop what was computed from other weights for prompts that may come again."""
        if not (await self._json("POST", "/reset_prefix_cache", Reset)).success:
            raise Unavailable("vLLM did not drop its prefix cache", next_step=_RESTART)

    async def set_version(self, version: str) -> None:
        """Name what is loaded; a vLLM that was restarted has another name for it."""
        await self._call("POST", "/update_weight_version", {"new_version": version})

    async def version(self) -> str:
        """The name that ``set_version`` gave."""
        return (await self._json("GET", "/weight_info", Version)).weight_version

    async def score(self, model: str, token_ids: Sequence[int], first: int) -> list[float]:
        """Log-probability at temperature 1 of each token from the place ``first`` on, in nats."""
        body = {
            "model": model,
            "prompt": list(token_ids),
            "max_tokens": 1,
            "temperature": 0.0,
            "prompt_logprobs": 0,
        }
        answer = await self._json("POST", "/v1/completions", Scores, body, wait_s=_REPLY_S)
        entries = answer.choices[0].prompt_logprobs if len(answer.choices) == 1 else []
        scores = [
            entry[str(token)].logprob
            for token, entry in zip(token_ids, entries, strict=False)
            if entry is not None and str(token) in entry
        ]
        # The first token of a prompt has none.
        if len(entries) != len(token_ids) or len(scores) != len(token_ids) - 1:
            raise _malformed("the prompt's log-probabilities are not complete")
        return scores[first - 1 :]

    async def chat(self, body: dict[str, Any]) -> dict[str, Any]:
        """The answer to a chat request."""
        path = "/v1/chat/completions"
        found: dict[str, Any] = await self._json("POST", path, dict, body, wait_s=_REPLY_S)
        return found

    def stream(self, body: dict[str, Any]) -> Any:
        """The answer as a stream: an async context manager of an ``httpx.Response``."""
        return self._http.stream(
            "POST",
            "/v1/chat/completions",
            json=body,
            timeout=httpx.Timeout(_SHORT_S, read=_REPLY_S),
        )

    async def _json(
        self,
        method: str,
        path: str,
        kind: type[_T],
        body: dict[str, Any] | None = None,
        wait_s: float = _SHORT_S,
    ) -> _T:
        answer = await self._call(method, path, body, wait_s)
        try:
            return msgspec.json.decode(answer, type=kind)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise _malformed(f"{path}: {error}") from error

    async def _call(
        self,
        method: str,
        path: str,
        body: dict[str, Any] | None = None,
        wait_s: float = _SHORT_S,
    ) -> bytes:
        try:
            answer = await self._http.request(
                method, path, json=body, timeout=httpx.Timeout(_SHORT_S, read=wait_s)
            )
        except httpx.HTTPError as error:
            raise unreachable(error) from error
        if answer.status_code != 200:
            raise problem_of(answer.status_code, answer.content)
        return answer.content


def unreachable(error: httpx.HTTPError) -> Unavailable:
    """vLLM gave no answer, or not the whole of one."""
    return Unavailable(f"vLLM did not answer: {type(error).__name__} {error}", next_step=_RESTART)


def problem_of(status: int, body: bytes) -> ReefError:
    """An error that vLLM answered with, as one of the project's."""
    message = body[:500].decode("utf-8", "replace")
    try:
        found = msgspec.json.decode(body)
        message = str(found["error"]["message"])[:2000]
    except (msgspec.DecodeError, UnicodeDecodeError, KeyError, TypeError):
        pass
    if status in (400, 404, 422):
        kind = NotFound if status == 404 else BadRequest
        return kind(f"vLLM refused: {message}", next_step="Change the request.")
    return Unavailable(f"vLLM failed with status {status}: {message}", next_step=_RESTART)


def _malformed(what: str) -> Unavailable:
    return Unavailable(
        f"vLLM's answer cannot be used: {what}",
        next_step="Use a version of vLLM that docs/vllm.md names.",
    )
