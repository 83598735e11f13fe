"""The hash of file contents. One change asks for the same two hashes many times over."""

from __future__ import annotations

import hashlib

_LARGE = 2_000_000
"""Bytes above which a content is not held on to for its hash."""
_KEPT = 4

_recent: tuple[tuple[bytes, str], ...] = ()


def sha256(data: bytes) -> str:
    """Hash of a file's content in hex. The last few contents are known by identity: bytes do not change."""
    global _recent
    for known, digest in _recent:
        if known is data:
            return digest
    digest = hashlib.sha256(data).hexdigest()
    if len(data) <= _LARGE:
        # One assignment, so that threads need no lock: at worst a hash is made twice.
        _recent = ((data, digest), *_recent[: _KEPT - 1])
    return digest
