"""``goalwright models``, and models that are not there, in a real terminal."""

from __future__ import annotations

import json

from tests.support.drivers.command_line import CommandLine


def test_models_name_the_variables_that_set_them_up(goalwright: CommandLine) -> None:
    listed = goalwright.run("models").stdout
    for line in (
        "Mistral  set MISTRAL_API_KEY",
        "Azure OpenAI  set AZURE_API_BASE, AZURE_API_KEY",
        "VS Code  not running",
        "OpenAI-compatible server  set CUSTOM_API_BASE, and CUSTOM_API_KEY if the server wants a key",
    ):
        assert line in listed.splitlines()
    assert "Google Vertex AI  run `gcloud auth application-default login`, or set GOOGLE_" in listed
    assert "Amazon Bedrock  set AWS_BEARER_TOKEN_BEDROCK, or sign in to AWS: with a profile" in listed
    [only] = json.loads(goalwright.run("models", "deepseek", "--json").stdout)["providers"]
    assert (only["keyVariable"], only["connected"]) == ("DEEPSEEK_API_KEY", False)
    unknown = goalwright.run("models", "nobody")
    assert unknown.returncode == 1
    assert "There is no provider 'nobody'. Choose one of: anthropic," in unknown.stderr


def test_vscode_model_without_a_window_says_what_to_do(goalwright: CommandLine) -> None:
    result = goalwright.run("run", "hello", "--model", "vscode/copilot/gpt-x")
    assert result.returncode == 1
    assert "no VS Code window has this folder open" in result.stdout + result.stderr


def test_a_broken_configuration_is_told_by_each_command(goalwright: CommandLine) -> None:
    goalwright.have_daemon()
    goalwright.configure().write_text("{")
    for command in (
        "models ollama",
        "skills",
        "tools",
        "mcp",
        "agents",
        "sessions",
        "permissions",
        "start",
        "status",
    ):
        ran = goalwright.run(*command.split())
        assert ran.returncode == 0
        said = ran.stderr if command != "status" else ran.stdout
        assert said.count("config.json is not used: it is not valid JSON") == 1, (command, ran)
