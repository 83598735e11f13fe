import assert from "node:assert/strict";
import { test } from "node:test";
import { TraceView } from "../../../daemon/api/page/trace.js";

test("steps that could not be loaded are loaded with the next connection", (context) => {
  context.mock.timers.enable({ apis: ["setTimeout"] });
  const loads = (line: string | null, before: boolean, after: boolean): number => {
    let count = 0;
    const steps = { loaded: before, show: () => count++ };
    const view = Object.assign(Object.create(TraceView.prototype) as TraceView, { stepsShown: true, traceId: "s1", line, steps });
    view.caughtUp({ branches: {} } as Parameters<TraceView["caughtUp"]>[0]);
    steps.loaded = after;
    context.mock.timers.tick(500);
    return count;
  };
  assert.deepEqual([loads(null, false, false), loads(null, false, true), loads(null, true, true), loads("A", true, true)], [1, 0, 0, 1]);
});
