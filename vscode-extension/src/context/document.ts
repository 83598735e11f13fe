/** The next model request as a Markdown document to read, search and fold. Pure. */
import { columns } from "../../../daemon/api/page/format.js";
import { percent, short, tokensWord } from "../amounts";
import { oneLine, shortened } from "../explore/format";
import type { ContextMessage, ContextPart, ContextResult, GoalTree, Part } from "../protocol.gen";
import { goalNumbers, goalOf } from "../goals/tree";
import { t } from "../l10n";

const LAYERS: Record<ContextPart["layer"], string> = {
  system: t("System prompt"),
  tools: t("Tools"),
  messages: t("Messages"),
  plan: t("Plan"),
};
const KINDS: Record<ContextMessage["kind"], string> = {
  message: "",
  goal_summary: t("replaces the messages of an ended goal"),
  compaction: t("compaction"),
  history: t("rest of an earlier turn"),
};

export function contextDocument(context: ContextResult, tree: GoalTree, title: string): string {
  const { system, tools, messages, tail } = context;
  return [
    heading(1, t("Context of {0}", title)),
    overview(context),
    table(context),
    heading(2, `${LAYERS.system} · ${tokensWord(layer(context, "system"))}`),
    ...layered(system, context.parts),
    heading(2, `${LAYERS.tools} · ${tools.length} · ${tokensWord(layer(context, "tools"))}`),
    ...tools.flatMap((tool) => [
      heading(3, tool.name),
      fence(tool.description),
      fence(JSON.stringify(tool.inputSchema, null, 2), "json"),
    ]),
    heading(2, `${LAYERS.messages} · ${messages.length} · ${tokensWord(layer(context, "messages"))}`),
    ...messages.flatMap((message, index) => messageLines(message, index, tree)),
    ...(tail ? [heading(2, `${LAYERS.plan} · ${t("at the end of the last message")} · ${tokensWord(layer(context, "plan"))}`), fence(tail)] : []),
    "",
  ].join("\n\n");
}

function overview({ model, tokens, meter }: ContextResult): string {
  const fits = meter.contextWindow > 0 ? t("{0} of a {1} window", tokensWord(tokens), short(meter.contextWindow)) : tokensWord(tokens);
  const amounts = meter.compactAt > 0 ? t("{0}; auto-compacts at {1}", fits, short(meter.compactAt)) : fits;
  return [
    t("Exactly what `{0}` would receive now: about {1}.", oneLine(model), amounts),
    t("Token counts of parts are estimates. Use *Refresh* in the title bar to update them."),
  ].join(" ");
}

/** Format the parts as a table with aligned columns, because the document is shown as plain text. */
function table({ parts, tokens }: ContextResult): string {
  const share = (part: ContextPart): string => percent(tokens > 0 ? part.tokens / tokens : 0);
  const rows = parts.map((part) => [LAYERS[part.layer], cell(part.name), short(part.tokens), share(part)]);
  const all = [[t("Layer"), t("What"), t("Tokens"), t("Share")], ...rows];
  const widths = [0, 1, 2, 3].map((column) => Math.max(3, ...all.map((row) => columns(row[column] ?? ""))));
  const line = (row: readonly string[]): string =>
    `| ${row.map((text, column) => {
      const gap = " ".repeat((widths[column] ?? 0) - columns(text));
      return column < 2 ? text + gap : gap + text;
    }).join(" | ")} |`;
  const rule = widths.map((width, column) => (column < 2 ? "-".repeat(width) : `${"-".repeat(width - 1)}:`));
  return all.map(line).toSpliced(1, 0, line(rule)).join("\n");
}

/** Format the system prompt's blocks under the names of its parts; a plan in the system prompt comes last. */
function layered(system: readonly string[], parts: readonly ContextPart[]): string[] {
  const named = parts.filter((part) => part.layer === "system");
  return system.flatMap((text, index) => {
    const part = system.length >= named.length ? named[index] : undefined;
    return [heading(3, part ? `${part.name} · ${tokensWord(part.tokens)}` : t("Block {0}", index + 1)), fence(text)];
  });
}

function messageLines(message: ContextMessage, index: number, tree: GoalTree): string[] {
  const goal = goalOf(tree, message.goalId);
  const number = goal && (goalNumbers(tree).get(goal.id) ?? t("abandoned"));
  const about = [message.role, KINDS[message.kind], goal ? t("goal {0}", number ?? "") : "", glimpse(message.content), tokensWord(message.tokens)];
  return [heading(3, `${index + 1} · ${about.filter(Boolean).join(" · ")}`), ...message.content.flatMap(partLines)];
}

function partLines(part: Part): string[] {
  switch (part.type) {
    case "text":
      return part.text ? [fence(part.text)] : [];
    case "note":
      return [t("Note:"), fence(part.text)];
    case "reasoning":
      return [t("Reasoning:"), fence(part.text || t("(encrypted)"))];
    case "tool_call":
      return [t("Calls `{0}`:", oneLine(part.name)), fence(pretty(part.input), "json")];
    case "tool_result":
      return [part.isError ? t("Error of `{0}`:", oneLine(part.name)) : t("Result of `{0}`:", oneLine(part.name)), fence(part.content)];
    case "file":
      return [t("File `{0}` ({1})", oneLine(part.name), oneLine(part.mediaType))];
    case "subtask":
      return [t("Task for `{0}`:", oneLine(part.agent)), fence(part.prompt)];
    case "command":
      return [fence(part.text)];
    case "agent":
      return [t("Switches to the agent `{0}`.", oneLine(part.agent))];
    case "compaction":
    case "finish":
      return [];
  }
}

/** Summarize a message for its heading, because the outline shows only headings. */
function glimpse(content: readonly Part[]): string {
  const calls = content.flatMap((part) => (part.type === "tool_call" ? [part.name] : []));
  const result = content.find((part) => part.type === "tool_result");
  const text = content.find((part) => (part.type === "text" || part.type === "note") && part.text.trim());
  const said = text && "text" in text ? oneLine(text.text) : "";
  const words = calls.length > 0 ? t("calls {0}", calls.join(", ")) : result ? t("result of {0}", result.name) : said;
  return shortened(words, 60);
}

function layer({ parts }: ContextResult, name: ContextPart["layer"]): number {
  return parts.reduce((sum, part) => (part.layer === name ? sum + part.tokens : sum), 0);
}

function heading(level: number, text: string): string {
  return `${"#".repeat(level)} ${oneLine(text)}`;
}

/** Quote a text in a fence that it cannot close. Headings inside stay text, so outline and folding are correct. */
function fence(text: string, language = "text"): string {
  const longest = Math.max(2, ...[...text.matchAll(/`+/g)].map(([ticks]) => ticks.length));
  const ticks = "`".repeat(longest + 1);
  return `${ticks}${language}\n${text.replace(/\r\n?/g, "\n").replace(/\n$/, "")}\n${ticks}`;
}

function pretty(json: string): string {
  try {
    return JSON.stringify(JSON.parse(json), null, 2);
  } catch {
    return json;
  }
}

function cell(text: string): string {
  return shortened(oneLine(text), 60).replaceAll("|", "\\|");
}
