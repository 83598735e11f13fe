"""Where traces are kept: the ``TraceStore`` protocol and its back ends."""
