import assert from "node:assert/strict";
import { test } from "node:test";
import type { Connection, Surroundings } from "../src/daemon/connection";
import { Daemon } from "../src/daemon/daemon";
import { asProblem, Problem } from "../src/daemon/problems";
import { log, settled } from "./fakes/session";

/** A connected daemon. `ended` lets its connection close; `started` counts the attempts to start it. */
function connected(): { daemon: Daemon; ended: () => void; started: () => number } {
  let starts = 0;
  const python = (): Promise<string> => {
    starts++;
    return Promise.reject(new Problem("noPython", "no Python"));
  };
  const daemon = new Daemon({ output: log, folder: () => "/w", python } as unknown as Surroundings);
  let ended: () => void = () => undefined;
  const close = (): Promise<void> => new Promise((resolve) => (ended = resolve));
  const connection = { request: () => Promise.resolve({}), close } as unknown as Connection;
  Object.assign(daemon, { connection, state: { phase: "connected" } });
  return { daemon, ended: () => ended(), started: () => starts };
}

test("a request during a stop does not start the daemon again", async () => {
  const { daemon, ended, started } = connected();
  const stopping = daemon.stop();
  await settled();
  const asked = daemon.request("goalwright/session/list", { limit: 1 }).then(() => "answered", (error: unknown) => asProblem(error).code);
  ended();
  await stopping;
  assert.deepEqual([await asked, started(), daemon.state.phase], ["stopped", 0, "stopped"]);
  await assert.rejects(daemon.connect());
  assert.equal(started(), 1);
});

test("a daemon that closes its connection when stopped is not replaced", async () => {
  const { daemon, started } = connected();
  const { connection, onClosed } = daemon as unknown as { connection: Connection; onClosed: (connection: Connection, endpoint: object) => void };
  const stopping = daemon.stop();
  // Over a port, as on Windows, a daemon that was stopped cannot be told from one that was killed.
  onClosed.call(daemon, connection, { port: 1 });
  await stopping;
  await settled();
  assert.deepEqual([started(), daemon.state.phase], [0, "stopped"]);
});
