"""How much clients of the WebSocket may take."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ClientLimits:
    """Of one daemon's API. Sizes in bytes, times in seconds."""

    clients: int = 256
    """That watch at the same time, over all traces."""
    clients_per_trace: int = 128
    frame_bytes: int = 4096
    """Of one message that a client sends; it has nothing to say."""
    frames_from_client: int = 100
    """That a client may send nevertheless before it is sent away."""
    ring_frames: int = 4096
    ring_bytes: int = 8 * 1024 * 1024
    """Of a watched trace that is kept encoded; who is further behind is caught up from the log."""
    pending_events: int = 20_000
    """That wait to be encoded; when there are more, everybody is caught up from the log."""
    delta_lag: int = 256
    """Frames that a client may be behind and still get deltas."""
    batch_bytes: int = 128 * 1024
    """Written to a client at once."""
    breath_s: float = 0.005
    """Between two batches of events that are told."""
    page_events: int = 500
    """Read from the log at once."""
    stalled_s: float = 600.0
    """After this time without taking a byte a client is cut off; it can come back with its last event id."""
    linger_s: float = 20.0
    """A trace that nobody watches any more is still followed for this time: who lost the connection comes back."""
    close_s: float = 2.0
    """For a client to take the words of the close."""
    ping_s: float = 30.0
    ping_timeout_s: float = 300.0
    """Clients that read slowly answer late; those that are gone are found in the end."""
