"""Variables of the user's environment that programs receive."""

from __future__ import annotations

import pytest

from tools.process.environment import PASSED_ON, daemon_environment, kept_back, scrubbed_environment

TOKEN = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U"

NEEDED = {
    "PATH": "/usr/bin:/bin", "HOME": "/home/ada", "LANG": "de_DE.UTF-8", "LC_ALL": "C", "USER": "ada", "TZ": "UTC",
    "SHELL": "/bin/zsh", "TMPDIR": "/tmp", "XDG_RUNTIME_DIR": "/run/user/1000", "XDG_SESSION_ID": "3", "CI": "true",
    "DBUS_SESSION_BUS_ADDRESS": "unix:path=/run/user/1000/bus", "SSH_AUTH_SOCK": "/tmp/ssh-XXXX12ab/agent.12",
    "DISPLAY": ":0", "http_proxy": "http://me:pw@proxy:3128", "HTTPS_PROXY": "http://proxy:3128",
    "NO_PROXY": "localhost",
    "SSL_CERT_FILE": "/etc/ssl/ca.pem", "REQUESTS_CA_BUNDLE": "/etc/ssl/ca.pem", "NODE_EXTRA_CA_CERTS": "/etc/ca.pem",
    "VIRTUAL_ENV": "/home/ada/x/.venv", "CONDA_PREFIX": "/opt/conda", "NVM_DIR": "/home/ada/.nvm",
    "PYENV_ROOT": "/home/ada/.pyenv", "JAVA_HOME": "/usr/lib/jvm/21", "GOPATH": "/home/ada/go", "GOROOT": "/usr/go",
    "GOFLAGS": "-mod=mod", "GOPROXY": "https://proxy.example", "CARGO_HOME": "/home/ada/.cargo",
    "RUSTFLAGS": "-Dwarnings",
    "RUST_BACKTRACE": "1", "RUSTUP_HOME": "/home/ada/.rustup", "NODE_ENV": "test", "NODE_PATH": "/usr/lib/node",
    "npm_config_cache": "/home/ada/.npm", "npm_config_registry": "https://registry.example/", "PYTHONPATH": "src",
    "PYTHONDONTWRITEBYTECODE": "1", "PIP_INDEX_URL": "https://index.example/simple", "EDITOR": "vim", "CC": "clang",
    "CFLAGS": "-O2 -g", "LD_LIBRARY_PATH": "/opt/lib", "PKG_CONFIG_PATH": "/opt/lib/pkgconfig",
    "CMAKE_PREFIX_PATH": "/opt",
    "MAVEN_OPTS": "-Xmx1g", "GRADLE_USER_HOME": "/home/ada/.gradle", "ANDROID_HOME": "/opt/android",
    "DOTNET_ROOT": "/opt",
    "GEM_HOME": "/home/ada/.gem", "RAILS_ENV": "test", "BUNDLE_GEMFILE": "Gemfile",
    "DJANGO_SETTINGS_MODULE": "app.settings",
    "FLASK_APP": "app", "GIT_AUTHOR_NAME": "Ada", "GIT_SSH_COMMAND": "ssh -i ~/.ssh/id", "GPG_TTY": "/dev/pts/1",
    "CUDA_VISIBLE_DEVICES": "0", "OMP_NUM_THREADS": "4", "DOCKER_HOST": "unix:///run/docker.sock",
    "TF_CPP_MIN_LOG_LEVEL": "3",
    "SOURCE_DATE_EPOCH": "1700000000", "MAKEFLAGS": "-j4", "SYSTEMROOT": "C:\\Windows",
    "LS_COLORS": "rs=0:di=01;34:ln=01;36",
    "INVOCATION_ID": "9b1f0c3a5d7e4f60a1b2c3d4e5f60718", "NIX_PATH": "nixpkgs=/nix/var",
    "HOMEBREW_PREFIX": "/opt/homebrew", "GIT_ASKPASS": "/usr/bin/askpass", "SSH_ASKPASS": "/usr/bin/askpass",
    "npm_config_https_proxy": "http://me:pw@proxy:3128",
}  # fmt: skip

SECRET = {
    "GITHUB_TOKEN": "x", "GH_TOKEN": "x", "AWS_SECRET_ACCESS_KEY": "x", "AWS_ACCESS_KEY_ID": "x", "DATABASE_URL": "x",
    "DOCKER_AUTH_CONFIG": "{}", "HF_TOKEN": "x", "HF_HOME": "x", "JWT": "x", "SLACK_WEBHOOK": "x", "BEARER": "x",
    "COOKIE": "x", "SESSION": "x", "KEY": "x", "MYSQL_PWD": "x", "PGPASSWORD": "x", "REDIS_URL": "x",
    "SENTRY_DSN": "x",
    "KUBECONFIG": "x", "VAULT_ADDR": "x", "ANTHROPIC_API_KEY": "x", "OPENAI_BASE_URL": "x", "STRIPE": TOKEN,
    # Of the families that are needed.
    "NODE_AUTH_TOKEN": "x", "npm_config__auth": "x", "npm_config_//registry.example/:_authToken": "x",
    "NPM_TOKEN": "x",
    "CI_JOB_JWT": "x", "CI_JOB_TOKEN": "x", "CARGO_REGISTRY_TOKEN": "x", "CARGO_REGISTRIES_OURS_TOKEN": "x",
    "POETRY_PYPI_TOKEN_PYPI": "x", "POETRY_HTTP_BASIC_OURS_PASSWORD": "x", "UV_PUBLISH_TOKEN": "x",
    "PIP_PASSWORD": "x",
    "BUNDLE_GITHUB__COM": "x", "FLASK_SECRET_KEY": "x", "HOMEBREW_GITHUB_API_TOKEN": "x", "NUGET_API_KEY": "x",
    "CYPRESS_RECORD_KEY": "x", "TURBO_TOKEN": "x", "COMPOSE_DB_PASSWORD": "x", "GRADLE_PUBLISH_SECRET": "x",
    "ANDROID_KEYSTORE_PASS": "x", "SSH_PRIVATE_KEY": "x", "GIT_PASSWORD": "x", "REACT_APP_API_KEY": "x",
    "JAVA_SESSION": "x", "GIT_ASKPASS_X": "x", "GIT_MYTOKEN": "x", "COMPOSE_DBPASS": "x",
    # By what is in them.
    "PIP_INDEX_URL": "https://ada:pw@index.example/simple", "NODE_OPTIONS": TOKEN, "CI": JWT, "PORT": f"Bearer {JWT}",
    "GOPROXY": "https://ada:pw@proxy.example", "CFLAGS": f"-DTOKEN={TOKEN}",
    "DEBUG": "-----BEGIN OPENSSH PRIVATE KEY-----\n" + "b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9u\n" * 4,
}  # fmt: skip


@pytest.mark.parametrize("name", NEEDED)
def test_what_programs_need_is_passed_on(name: str) -> None:
    assert scrubbed_environment({name: NEEDED[name]})[name] == NEEDED[name]
    assert kept_back({name: NEEDED[name]}, ()) == []


@pytest.mark.parametrize("name", SECRET)
def test_what_may_be_secret_is_kept_back_and_listed(name: str) -> None:
    assert name not in scrubbed_environment({name: SECRET[name]})
    assert kept_back({name: SECRET[name]}, ()) == [name]


@pytest.mark.parametrize("name", SECRET)
def test_a_wildcard_brings_no_secret_along_but_a_name_does(name: str) -> None:
    by_wildcard = scrubbed_environment({name: SECRET[name], PASSED_ON: "*"})
    harmless = {
        "DATABASE_URL",
        "HF_HOME",
        "REDIS_URL",
        "KUBECONFIG",
        "VAULT_ADDR",
        "OPENAI_BASE_URL",
        "BUNDLE_GITHUB__COM",
    }
    assert (name in by_wildcard) == (name in harmless)
    assert scrubbed_environment({name: SECRET[name], PASSED_ON: f"A {name} B"})[name] == SECRET[name]
    assert kept_back({name: SECRET[name]}, [name]) == []


def test_the_setting_takes_names_and_wildcards() -> None:
    given = {
        "MYAPP_URL": "u",
        "MYAPP_PASSWORD": "p",
        "MYAPP": "m",
        "YOURAPP": "y",
        PASSED_ON: "MYAPP_* YOURAPP",
    }
    passed = scrubbed_environment(given)
    assert {name for name in given if name in passed} == {"MYAPP_URL", "YOURAPP"}
    assert kept_back(given, ["MYAPP_*", "YOURAPP"]) == ["MYAPP", "MYAPP_PASSWORD"]


def test_what_changes_the_meaning_of_commands_is_never_passed_on() -> None:
    given = dict.fromkeys(("BASH_ENV", "ENV", "CDPATH", "IFS", "PS4", "GIT_DIR", "GIT_INDEX_FILE"), "x")
    assert not set(scrubbed_environment({**given, PASSED_ON: "* " + " ".join(given)})) & set(given)


def test_keys_among_git_settings_are_left_out() -> None:
    settings = {
        "user.name": "Ada",
        "http.https://github.com/.extraheader": "AUTHORIZATION: basic eDp5",
        "url.https://x.insteadOf": TOKEN,
        "http.proxy": "http://proxy",
    }
    given = {"GIT_CONFIG_COUNT": str(len(settings))}
    for n, (key, value) in enumerate(settings.items()):
        given |= {f"GIT_CONFIG_KEY_{n}": key, f"GIT_CONFIG_VALUE_{n}": value}
    passed = scrubbed_environment(given)
    assert [passed[f"GIT_CONFIG_KEY_{n}"] for n in range(int(passed["GIT_CONFIG_COUNT"]))] == [
        "user.name", "http.proxy", "safe.bareRepository", "core.fsmonitor",
    ]  # fmt: skip
    assert TOKEN not in " ".join(passed.values())


def test_a_daemon_is_started_with_the_same_and_its_own_variables() -> None:
    given = {
        **NEEDED,
        **{f"X_{n}": "x" for n in range(3)},
        "GITHUB_TOKEN": "x",
        "MINE": "m",
        "GOALWRIGHT_HOME": "/h",
        "PGPASSWORD": "p",
        "PGHOST": "h",
    }
    started = daemon_environment(given, ["MINE", "X_1 X_2"])
    assert started["GOALWRIGHT_HOME"] == "/h"
    assert {"MINE", "X_1", "X_2", "PGPASSWORD", "PGHOST"} <= set(started)
    assert not {"GITHUB_TOKEN", "X_0"} & set(started)
    below = scrubbed_environment(started)
    assert below == {
        name: value for name, value in started.items() if not name.startswith(("GOALWRIGHT_", "PG"))
    }
