"""The language servers of data and markup: JSON, CSS, HTML and YAML."""

from __future__ import annotations

from lsp_bridge.language_client.specs.server_spec import Command, ServerSpec, Setup, languages

_EXTRACTED = ("npm install -g vscode-langservers-extracted",)
_WITH_COMMENTS = (
    "tsconfig.json jsconfig.json .eslintrc.json .eslintrc .jshintrc .swcrc .hintrc .babelrc devcontainer.json "
    "launch.json settings.json tasks.json extensions.json keybindings.json api-extractor.json tslint.json deno.json"
)
"""JSON files whose readers allow comments."""
# fmt: off
_TAGS = (
    # CloudFormation
    "!And sequence", "!Base64 scalar", "!Base64 mapping", "!Cidr scalar", "!Cidr sequence",
    "!Condition scalar", "!Equals sequence", "!FindInMap sequence", "!GetAZs scalar", "!GetAtt scalar",
    "!GetAtt sequence", "!If sequence", "!ImportValue scalar", "!ImportValue mapping", "!Join sequence",
    "!Not sequence", "!Or sequence", "!Ref scalar", "!Select sequence", "!Split sequence", "!Sub scalar",
    "!Sub sequence", "!Transform mapping",
    # GitLab, Home Assistant, MkDocs, Docker Compose
    "!reference sequence", "!include scalar", "!include_dir_list scalar", "!include_dir_merge_list scalar",
    "!include_dir_merge_named scalar", "!include_dir_named scalar", "!secret scalar", "!env_var scalar",
    "!ENV scalar", "!ENV sequence", "!relative scalar", "!reset scalar", "!reset sequence",
    "!reset mapping", "!override sequence", "!override mapping",
)
# fmt: on
"""Tags of well-known YAML formats, which would be errors otherwise."""


_JSON = Setup(
    settings={"json": {"validate": {"enable": True}, "format": {"enable": False}, "schemas": []}},
    # Read schemas from files only, never from addresses that a document names.
    initialization_options={"provideFormatter": False, "handledSchemaProtocols": ["file"]},
)
_STYLES = Setup(
    settings={language: {"validate": True} for language in ("css", "scss", "less")},
    initialization_options={"provideFormatter": False},
)
_HTML = Setup(
    settings={
        "html": {"validate": {"scripts": True, "styles": True}, "format": {"enable": False}},
        "css": {"validate": True},
        "javascript": {"validate": {"enable": True}},
    },
    initialization_options={
        "provideFormatter": False,
        "embeddedLanguages": {"css": True, "javascript": True},
    },
)
_YAML = Setup(
    settings={
        "yaml": {
            "validate": True,
            "format": {"enable": False},
            "completion": False,
            # The online catalogue would be requested at each start.
            "schemaStore": {"enable": False},
            "customTags": list(_TAGS),
        },
        "redhat": {"telemetry": {"enabled": False}},
    }
)


WEB: tuple[ServerSpec, ...] = (
    ServerSpec(
        name="json",
        title="JSON",
        languages=languages(("json", ".json .webmanifest .geojson"), ("jsonc", ".jsonc .code-workspace")),
        files=languages(("jsonc", _WITH_COMMENTS), ("json", ".prettierrc composer.lock")),
        commands=(
            Command("vscode-json-language-server", ("vscode-json-language-server", "--stdio")),
            Command("vscode-json-languageserver", ("vscode-json-languageserver", "--stdio")),
        ),
        configure=_JSON,
        install=_EXTRACTED,
    ),
    ServerSpec(
        name="css",
        title="CSS, SCSS, Less",
        languages=languages(("css", ".css"), ("scss", ".scss"), ("less", ".less")),
        commands=(
            Command("vscode-css-language-server", ("vscode-css-language-server", "--stdio")),
            Command("css-languageserver", ("css-languageserver", "--stdio")),
        ),
        configure=_STYLES,
        install=_EXTRACTED,
    ),
    ServerSpec(
        name="html",
        title="HTML",
        languages=languages(("html", ".html .htm .xhtml")),
        commands=(
            Command("vscode-html-language-server", ("vscode-html-language-server", "--stdio")),
            Command("html-languageserver", ("html-languageserver", "--stdio")),
        ),
        configure=_HTML,
        install=_EXTRACTED,
    ),
    ServerSpec(
        name="yaml",
        title="YAML",
        languages=languages(("yaml", ".yaml .yml")),
        files=languages(("yaml", ".clang-format .clang-tidy .clangd")),
        commands=(Command("yaml-language-server", ("yaml-language-server", "--stdio")),),
        configure=_YAML,
        install=("npm install -g yaml-language-server", "brew install yaml-language-server"),
    ),
)
