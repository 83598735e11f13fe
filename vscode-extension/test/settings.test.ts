import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { chosen } from "../src/daemon/environment";
import { SETTINGS } from "../src/daemon/settings.gen";

interface Section {
  title: string;
  properties: Record<string, { default?: unknown; description?: string; markdownDescription?: string }>;
}
const { contributes, capabilities } = JSON.parse(readFileSync("package.json", "utf8")) as {
  contributes: { configuration: Section[] };
  capabilities: { untrustedWorkspaces: { restrictedConfigurations: string[] } };
};
const properties = Object.assign({}, ...contributes.configuration.map((section) => section.properties)) as Section["properties"];

test("what nobody has set is left to config.json", () => {
  assert.deepEqual(chosen((name) => properties[`goalwright.${name}`]?.default), {});
});

test("what is set goes by the names of config.json", () => {
  const set: Record<string, unknown> = { model: " a/b ", budgetUsd: 2.5, sandboxNetwork: "on", allowReplan: "off", debugTrace: true, branchLinks: ["deps"], permission: { bash: "ask" }, thinkingTokens: 0 };
  assert.deepEqual(chosen((name) => set[name]), { model: "a/b", budget_usd: 2.5, sandbox_network: true, allow_replan: false, debug_trace: true, branch_links: ["deps"], permission: { bash: "ask" }, thinking_tokens: 0 });
});

test("each setting of the daemon stands in a section with a title and is described", () => {
  for (const name of Object.keys(SETTINGS)) {
    const setting = properties[`goalwright.${name}`];
    assert.ok(setting?.markdownDescription ?? setting?.description, name);
  }
  assert.ok(contributes.configuration.every(({ title }) => title.startsWith("%settings.")));
});

test("an untrusted folder makes no setting that reaches the daemon", () => {
  const restricted = new Set(capabilities.untrustedWorkspaces.restrictedConfigurations);
  for (const name of ["python", "basePython", ...Object.keys(SETTINGS)]) assert.ok(restricted.has(`goalwright.${name}`), name);
});
