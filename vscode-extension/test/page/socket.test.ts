import assert from "node:assert/strict";
import { mock, test } from "node:test";
import { Watch } from "../../../daemon/api/page/socket.js";

/** A connection whose other side is the test. */
class Line {
  onmessage: (event: { data: string }) => void = () => {};
  onclose: (event: { reason: string }) => void = () => {};
  closed = false;
  constructor(readonly address: string) {}
  close(): void {
    this.closed = true;
  }
  say(frame: object): void {
    this.onmessage({ data: JSON.stringify(frame) });
  }
  lose(reason = ""): void {
    this.onclose({ reason });
  }
}

function watched(since: number | null = null) {
  const lines: Line[] = [];
  const frames: string[] = [];
  const states: string[] = [];
  const watch = new Watch({
    address: (from) => `since=${from}`,
    since,
    onFrame: (frame) => frames.push(frame.event),
    onState: (state, detail) => states.push(detail ? `${state}: ${detail}` : state),
    open: (address) => {
      const line = new Line(address);
      lines.push(line);
      return line as unknown as WebSocket;
    },
    random: () => 0.5,
  });
  return { lines, frames, states, watch };
}

test("it comes back with the id of the last event that came, frames without one do not count", () => {
  mock.timers.enable({ apis: ["setTimeout"] });
  try {
    const { lines, frames, states } = watched(7);
    lines[0]?.say({ event: "connected", currentEventId: 9 });
    lines[0]?.say({ event: "step_added", ofEventId: 8 });
    lines[0]?.say({ event: "message_added", eventId: 8 });
    lines[0]?.say({ event: "delta" });
    lines[0]?.lose("The daemon stops.");
    mock.timers.tick(399);
    assert.equal(lines.length, 1);
    mock.timers.tick(1);
    assert.deepEqual(lines.map((line) => line.address), ["since=7", "since=8"]);
    lines[0]?.say({ event: "message_added", eventId: 99 });
    assert.deepEqual(frames, ["connected", "step_added", "message_added", "delta"]);
    assert.deepEqual(states, ["connecting", "live", "lost: The daemon stops.", "connecting"]);
  } finally {
    mock.timers.reset();
  }
});

test("without an id to begin with it comes back to where it connected", () => {
  mock.timers.enable({ apis: ["setTimeout"] });
  try {
    const { lines } = watched();
    lines[0]?.say({ event: "connected", currentEventId: 40 });
    lines[0]?.lose();
    mock.timers.tick(400);
    assert.equal(lines[1]?.address, "since=40");
  } finally {
    mock.timers.reset();
  }
});

test("it waits longer each time, at once when told so, and not at all when closed", () => {
  mock.timers.enable({ apis: ["setTimeout"] });
  try {
    const { lines, watch } = watched(0);
    for (const wait of [400, 800, 1600]) {
      const before = lines.length;
      lines.at(-1)?.lose();
      mock.timers.tick(wait - 1);
      assert.equal(lines.length, before);
      mock.timers.tick(1);
      assert.equal(lines.length, before + 1);
    }
    lines.at(-1)?.lose();
    watch.retry();
    assert.equal(lines.length, 5);
    watch.close();
    assert.equal(lines[4]?.closed, true);
    lines[4]?.lose();
    mock.timers.tick(60_000);
    assert.equal(lines.length, 5);
  } finally {
    mock.timers.reset();
  }
});
