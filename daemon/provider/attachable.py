"""Which attachments a model takes. Pure; only what is known is refused, everything else the model's server decides."""

from __future__ import annotations

import re

from tools.localization import t

_BLIND = {
    "anthropic": re.compile(r"claude-(?:2|instant)"),
    "openai": re.compile(r"gpt-3\.5|gpt-4(?:-\d{4}|-32k)?$|o1-mini|o1-preview|o3-mini|gpt-oss|codex-mini"),
    "ollama": re.compile(
        r"(?:codellama|codegemma|starcoder|deepseek|devstral:24b$|gpt-oss|qwen3-coder|qwen2\.5-coder|qwen2\.5:|qwen3:|"
        r"llama2|llama3:|llama3\.1|llama3\.3|mistral:|mixtral|phi3:|phi4:|granite-code)"
    ),
    "demo": re.compile(r""),
}
"""Models without eyes, by provider: names that match."""


def refusal(model: str, media_type: str) -> str:
    """Return why a model (``provider/model``) takes no attachment of this type, and what to do; empty: it does."""
    family, _, name = model.partition("/")
    if media_type == "application/pdf":
        if family == "anthropic" and not _BLIND[family].match(name):
            return ""
        return t(
            "The model {model} takes no PDF files. Attach their text or pictures, or choose a Claude model.",
            model=model,
        )
    blind = _BLIND.get(family)
    if media_type.startswith("image/") and blind is not None and blind.match(name):
        return t(
            "The model {model} cannot see images. Remove the image, or choose a model that can see.",
            model=model,
        )
    return ""
