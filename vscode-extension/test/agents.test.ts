import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";
import { handOver } from "../src/explore/agents";
import { answers, shown } from "./fakes/vscode";

/** The command over a daemon that notes what it was asked. */
function make(sessionId?: string) {
  const asked: [string, Record<string, unknown>][] = [];
  const opened: string[] = [];
  const parts = {
    daemon: {
      request: (method: string, params: Record<string, unknown>) => {
        asked.push([method, params]);
        return Promise.resolve({ session: { trace: { traceId: "s2" } } });
      },
    },
    sessions: { sessionId, open: (id: string) => Promise.resolve(opened.push(id)) },
    chat: { focus: () => Promise.resolve() },
  };
  return { run: () => handOver(parts as unknown as Parameters<typeof handOver>[0]), asked, opened };
}

beforeEach(() => {
  shown.splice(0);
  answers.splice(0);
});

test("a session is handed over to the agent that was picked, and the new one is opened", async () => {
  const { run, asked, opened } = make("s1");
  answers.push("Execute");
  await run();
  assert.deepEqual(asked, [["goalwright/session/handover", { sessionId: "s1", agent: "execute" }]]);
  assert.deepEqual(opened, ["s2"]);
});

test("without a session or a choice nothing is handed over", async () => {
  for (const sessionId of [undefined, "s1"]) {
    const { run, asked } = make(sessionId);
    await run();
    assert.deepEqual(asked, []);
  }
});
