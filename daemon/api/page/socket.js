// A WebSocket that reconnects with the id of its last event, so that no event is missed.

import { camelKeys } from "./keys.js";

/** @import { Frame } from "./shapes.js" */

const FIRST_WAIT_MS = 400;
const LONGEST_WAIT_MS = 15_000;
/** Close code of a daemon that stops. */
const GOING_AWAY = 1001;

/**
 * @typedef {object} WatchOptions
 * @property {(since: number | null) => string} address
 * @property {(frame: Frame) => void} onFrame
 * @property {(state: "connecting" | "live" | "lost", detail: string) => void} onState
 * @property {number | null} [since]
 * @property {(address: string) => WebSocket} [open]
 * @property {() => number} [random]
 */

export class Watch {
  /** @param {WatchOptions} options */
  constructor({ address, onFrame, onState, since = null, open = (url) => new WebSocket(url), random = Math.random }) {
    this.options = { address, onFrame, onState, open, random };
    /** Id of the last stored event received. */
    this.since = since;
    this.failures = 0;
    this.closed = false;
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this.timer = undefined;
    /** @type {WebSocket | null} */
    this.socket = null;
    this.connect();
  }

  connect() {
    if (this.closed) return;
    clearTimeout(this.timer);
    const { address, onFrame, onState, open } = this.options;
    onState("connecting", "");
    const socket = open(address(this.since));
    this.socket = socket;
    socket.onmessage = ({ data }) => {
      if (socket !== this.socket) return;
      /** @type {Frame} */
      const frame = camelKeys(JSON.parse(data));
      if (frame.event === "connected") {
        this.failures = 0;
        onState("live", "");
        // Without an initial id only new events are sent, so count from the current one.
        this.since ??= frame["currentEventId"] ?? null;
      } else if (typeof frame.eventId === "number" && frame.eventId > (this.since ?? 0)) this.since = frame.eventId;
      onFrame(frame);
    };
    socket.onclose = ({ code, reason }) => {
      if (socket !== this.socket || this.closed) return;
      this.socket = null;
      const wait = Math.min(LONGEST_WAIT_MS, FIRST_WAIT_MS * 2 ** this.failures++) * (0.75 + 0.5 * this.options.random());
      this.timer = setTimeout(() => this.connect(), wait);
      // In this case the close reason is meant for programs.
      onState("lost", code === GOING_AWAY ? "" : reason);
    };
  }

  /** Reconnects at once, e.g. when the network is back. */
  retry() {
    if (!this.socket) this.connect();
  }

  close() {
    this.closed = true;
    clearTimeout(this.timer);
    this.socket?.close();
    this.socket = null;
  }
}
