"""``goalwright completion``: the script with which a shell completes commands, options and their values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lsp_bridge.cli.invocation import EXIT_OK

if TYPE_CHECKING:
    from lsp_bridge.cli.invocation import Invocation


def completion(cli: Invocation, *, shell: str) -> int:
    """Print it for ``bash``, ``zsh`` or ``fish``. The shell then asks the program, see ``command_line.parse``."""
    from argcomplete.shell_integration import shellcode

    cli.console.write(shellcode(["goalwright"], shell=shell).strip() + "\n")
    return EXIT_OK
