"""Servers of local models as they treat their window: what they refuse, in which words, and what they tell of it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Literal

from tests.support.fakes.model_replies import Reply

Json = dict[str, Any]
Kind = Literal["llama.cpp", "vllm", "ollama", "anthropic", "silent"]


@dataclass(frozen=True)
class LocalServer:
    """A server whose model takes ``window`` tokens. ``silent`` names no number when it refuses."""

    kind: Kind
    window: int
    tells: bool = True
    """It answers questions about its models."""

    def tokens(self, request: Json) -> int:
        """The tokens of a prompt, by this server's own count."""
        prompt = {name: request.get(name) for name in ("system", "messages", "tools")}
        return len(json.dumps(prompt)) // 4

    def refusal(self, request: Json) -> Reply | None:
        """The error that a request deserves."""
        tokens, answer = self.tokens(request), int(request.get("max_tokens") or 0)
        # vLLM wants room for the whole answer; the others see when they get there.
        needed = tokens + (answer if self.kind == "vllm" else 1)
        if needed <= self.window or self.kind == "ollama":
            return None
        kinds = {"llama.cpp": "exceed_context_size_error", "vllm": "BadRequestError"}
        words = {
            "llama.cpp": f"request ({tokens} tokens) exceeds the available context size ({self.window} tokens), "
            "try increasing it",
            "vllm": f"This model's maximum context length is {self.window} tokens. However, you requested {needed} "
            f"tokens ({tokens} in the messages, {answer} in the completion). Please reduce the length of the messages "
            "or completion.",
            "anthropic": f"prompt is too long: {tokens} tokens > {self.window} maximum",
            "silent": "the request exceeds the available context size. try increasing the context size or enable "
            "context shift",
        }
        return Reply(
            status=400,
            error_type=kinds.get(self.kind, "invalid_request_error"),
            error_message=words[self.kind],
        )

    def side_door(self, path: str) -> tuple[int, Json] | None:
        """Return its report about its models."""
        if not self.tells:
            return None
        if path == "/v1/models":
            entry: Json = {"id": "any", "object": "model"}
            if self.kind == "vllm":
                entry["max_model_len"] = self.window
            else:
                entry["meta"] = {"n_ctx": self.window, "n_ctx_train": 131_072}
            return 200, {"object": "list", "data": [entry]}
        if path == "/api/show":
            info = {"general.architecture": "qwen3", "qwen3.context_length": self.window}
            return 200, {"capabilities": ["completion", "tools"], "model_info": info, "details": {}}
        return None
