"""What takes secrets out of all that is kept: see ``tools.redaction.redactor``.

It lies with the tools because they shorten texts, and a secret that is cut in two is recognised by nobody any more.
"""

from __future__ import annotations

from tools.redaction.redactor import MIN_KEY, SECRETS, Redactor, is_redacted

__all__ = ["MIN_KEY", "SECRETS", "Redactor", "is_redacted"]
