"""The trace API: REST, WebSocket and a web page over the stored and live traces of one workspace.

Reads only. Nothing here is imported before an API is wanted (``daemon.api.lazy_server`` is the light part that starts
it): FastAPI and uvicorn take a third of a second.
"""
