"""Signing in to the clouds without a key: what their SDKs would find, without asking the network.

The SDKs themselves look at the environment of the process, at files of the user, and at last at a server of the machine
that only the cloud's own machines have.
"""

from __future__ import annotations

import contextlib
import os
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tools.json_access import mapping

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping

_AWS_VARIABLES = (
    ("AWS_BEARER_TOKEN_BEDROCK",),
    ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"),
    ("AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_ROLE_ARN"),
    ("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",),
    ("AWS_CONTAINER_CREDENTIALS_FULL_URI",),
)
"""Each group is enough."""
_AWS_PROFILE_KEYS = frozenset(
    (
        "aws_access_key_id",
        "credential_process",
        "login_session",
        "role_arn",
        "sso_session",
        "sso_start_url",
        "web_identity_token_file",
    )
)
"""Each makes a profile one that signs in."""
_GOOGLE_MACHINE = Path("/sys/class/dmi/id/product_name")
_GOOGLE_CHECK = "google.auth.compute_engine._metadata"
"""The module that looks for the server of Google's machines; it reads its settings when it is imported."""
_GOOGLE_SETTINGS = {"GCE_METADATA_TIMEOUT": "1", "GCE_METADATA_DETECT_RETRIES": "1"}


def signed_in_to_aws(env: Mapping[str, str]) -> bool:
    """Return whether boto3 finds a sign-in. The role of an EC2 machine is not looked for: it takes the network.
    Blocking."""
    if any(all(env.get(name, "").strip() for name in names) for names in _AWS_VARIABLES):
        return True
    # Any: it has no types.
    loader: Any = import_module("botocore.configloader")
    errors: Any = import_module("botocore.exceptions")
    profile = env.get("AWS_PROFILE") or env.get("AWS_DEFAULT_PROFILE") or "default"
    config = _profiles(
        lambda: loader.load_config(env.get("AWS_CONFIG_FILE") or "~/.aws/config")["profiles"], errors
    )
    keys = _profiles(
        lambda: loader.raw_config_parse(env.get("AWS_SHARED_CREDENTIALS_FILE") or "~/.aws/credentials"),
        errors,
    )
    found = {*mapping(config.get(profile)), *mapping(keys.get(profile))}
    return not found.isdisjoint(_AWS_PROFILE_KEYS)


def _profiles(read: Callable[[], object], errors: Any) -> dict[str, Any]:
    try:
        return mapping(read())
    except (errors.BotoCoreError, OSError, ValueError):
        return {}  # there is no file, or none that boto3 could read


def signed_in_to_google(env: Mapping[str, str]) -> bool:
    """Return whether litellm and google-auth find a sign-in: a file, or this is a machine of Google's. Blocking."""
    own = env.get("VERTEXAI_CREDENTIALS", "").strip()
    if own:
        return own.startswith("{") or os.path.isfile(own)  # noqa: PTH113
    if named := env.get("GOOGLE_APPLICATION_CREDENTIALS", "").strip():
        return os.path.isfile(named)  # noqa: PTH113
    usual = (
        Path(env.get("APPDATA", ""), "gcloud")
        if sys.platform == "win32"
        else Path.home() / ".config" / "gcloud"
    )
    folder = Path(env.get("CLOUDSDK_CONFIG", "").strip() or usual)
    file = folder / "application_default_credentials.json"
    return os.path.isfile(file) or _is_google_machine()  # noqa: PTH113


def shorten_google_check() -> None:
    """Have google-auth ask once, for a second, whether this is a machine of Google's: elsewhere nothing answers, and
    three times three seconds pass. On such a machine nothing changes. Blocks for the import of google-auth."""
    if _GOOGLE_CHECK in sys.modules or _is_google_machine():
        return
    ours = {name: value for name, value in _GOOGLE_SETTINGS.items() if name not in os.environ}
    # Without requests google-auth does not ask either.
    with in_environment(ours), contextlib.suppress(ImportError):
        import_module(_GOOGLE_CHECK)


@contextlib.contextmanager
def in_environment(wanted: Mapping[str, str]) -> Generator[None]:
    """Set variables for an import: programs that tools start need not see them."""
    before = dict(os.environ)
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name in wanted.keys() - before.keys():
            del os.environ[name]
        os.environ.update({name: before[name] for name in wanted.keys() & before.keys()})


def _is_google_machine() -> bool:
    try:
        return _GOOGLE_MACHINE.read_text("utf-8").startswith("Google")
    except (OSError, ValueError):
        return False
