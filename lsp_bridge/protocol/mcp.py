"""The wire of MCP servers: which there are, their tools, prompts and resources, and their logs."""

from pydantic import Field

from daemon.mcp.service import McpResource, McpServer
from daemon.model.stored_model import Model
from lsp_bridge.protocol.sessions import SessionParams


class McpListParams(Model):
    """Ask for the servers. ``start``: start those that do not run, and wait some seconds for them."""

    start: bool = False


class McpGivenServer(Model):
    """A server that a client passes: ``command`` with ``args`` and ``env``, or ``url`` with ``headers``.

    Values are literal. Those of ``env`` and ``headers`` are kept in memory only.
    """

    name: str = Field(min_length=1, max_length=200)
    command: str = ""
    args: tuple[str, ...] = ()
    env: dict[str, str] = Field(default_factory=dict[str, str], repr=False)
    url: str = Field(default="", repr=False)
    headers: dict[str, str] = Field(default_factory=dict[str, str], repr=False)


class McpSessionParams(SessionParams):
    """Use these servers in a session of a trusted folder, in place of those that this connection passed before.

    They end with the connection.
    """

    servers: tuple[McpGivenServer, ...] = Field(default=(), max_length=20)


class McpListResult(Model):
    """The servers, and problems of the files that name them, as text for the user."""

    servers: tuple[McpServer, ...]
    problems: tuple[str, ...] = ()


class McpResourcesParams(Model):
    """Search the resources of running servers. ``query``: letters of the name or URI; ``limit``: most of them.

    ``sessionId``: also those of servers that were passed for this session.
    """

    session_id: str | None = None
    query: str = ""
    limit: int = Field(default=20, ge=1, le=200)


class McpResourcesResult(Model):
    """Those that match, best first."""

    resources: tuple[McpResource, ...]


class McpServerParams(Model):
    """Name a server."""

    name: str


class McpLoginResult(Model):
    """The page where the user signs in to a server. The browser must run on the machine of the daemon."""

    url: str


class McpLogResult(Model):
    """The end of a server's log, without secrets."""

    text: str


class McpSetParams(Model):
    """Have a server (``name``) or a tool of it (``server/tool``) used or not, in all folders."""

    name: str
    enabled: bool
