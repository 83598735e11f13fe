import * as vscode from "vscode";
import type { AnswerEnding, AnswerPiece } from "../protocol.gen";

/** A message in the shape of OpenAI's chat completions, as the daemon sends it. */
export interface WireMessage {
  role: "system" | "user" | "assistant" | "tool";
  content: string | readonly WirePart[] | null;
  tool_calls?: readonly { id: string; function: { name: string; arguments: string } }[];
  tool_call_id?: string;
}

interface WirePart {
  type: string;
  text?: string;
  image_url?: { url: string };
}

export interface WireTool {
  function: { name: string; description: string; parameters: object };
}

type Part = vscode.LanguageModelTextPart | vscode.LanguageModelToolCallPart | vscode.LanguageModelToolResultPart | vscode.LanguageModelDataPart;

/** Parts of reasoning. VS Code's stable API has no type for them, and delivers them nevertheless. */
const Thinking = (vscode as unknown as { LanguageModelThinkingPart?: new () => { value: string | string[] } }).LanguageModelThinkingPart;
const DATA_URL = /^data:([^;,]+);base64,(.*)$/s;
const NO_IMAGES = "[An image was left out: this model takes no images.]";

/** Convert a conversation. VS Code has no system role, so the system prompt becomes the first message of the user. */
export function toMessages(wire: readonly WireMessage[], images: boolean): vscode.LanguageModelChatMessage[] {
  const { User, Assistant } = vscode.LanguageModelChatMessageRole;
  const out: { role: vscode.LanguageModelChatMessageRole; parts: Part[]; results: boolean }[] = [];
  for (const message of wire) {
    const results = message.role === "tool";
    const parts = results ? [toolResult(message)] : [...contentParts(message.content, images), ...calls(message)];
    const last = out.at(-1);
    // The results of one message's calls belong together.
    if (results && last?.results) last.parts.push(...parts);
    else if (parts.length > 0) out.push({ role: message.role === "assistant" ? Assistant : User, parts, results });
  }
  return out.map(({ role, parts }) => new vscode.LanguageModelChatMessage(role, parts));
}

/** Return the text of a message that counts as tokens. */
export function textOf({ content, tool_calls }: WireMessage): string {
  const texts = typeof content === "string" ? [content] : (content ?? []).map(({ text }) => text ?? "");
  return [...texts, ...(tool_calls ?? []).map((call) => `${call.function.name} ${call.function.arguments}`)].join("\n");
}

export function toTools(wire: readonly WireTool[]): vscode.LanguageModelChatTool[] {
  return wire.map(({ function: { name, description, parameters } }) => ({ name, description, inputSchema: parameters }));
}

/** Convert a part of an answer; undefined for parts that are neither text, reasoning nor a tool call. */
export function toPiece(part: unknown): AnswerPiece | undefined {
  if (part instanceof vscode.LanguageModelTextPart) return part.value ? { text: part.value } : undefined;
  if (part instanceof vscode.LanguageModelToolCallPart) return { callId: part.callId, callName: part.name, callInput: JSON.stringify(part.input ?? {}) };
  if (Thinking && part instanceof Thinking) {
    const reasoning = [part.value].flat().join("");
    return reasoning ? { reasoning } : undefined;
  }
  return undefined;
}

/** Convert an error of a call. Errors of the extension itself come as the cause of a LanguageModelError, or alone. */
export function toEnding(error: unknown): AnswerEnding {
  const code = error instanceof vscode.LanguageModelError ? error.code : "";
  const cause = error instanceof Error && error.cause !== undefined ? error.cause : undefined;
  const message = [error, cause].map((one) => (one instanceof Error ? one.message : one === undefined ? "" : String(one))).find(Boolean) ?? "";
  const offTopic = [error, cause].some((one) => one instanceof Error && one.message.includes("off_topic"));
  const name = offTopic ? "OffTopic" : code && code !== "Unknown" ? code : "unknown";
  return { error: name.slice(0, 100), message: message.slice(0, 10_000) };
}

function contentParts(content: WireMessage["content"], images: boolean): Part[] {
  if (typeof content === "string") return content ? [new vscode.LanguageModelTextPart(content)] : [];
  return (content ?? []).map(({ text, image_url }) => {
    if (!image_url) return new vscode.LanguageModelTextPart(text ?? "");
    const [, type, data] = DATA_URL.exec(image_url.url) ?? [];
    if (!images || !type || data === undefined) return new vscode.LanguageModelTextPart(NO_IMAGES);
    return vscode.LanguageModelDataPart.image(Buffer.from(data, "base64"), type);
  });
}

function calls({ tool_calls }: WireMessage): Part[] {
  return (tool_calls ?? []).map((call) => new vscode.LanguageModelToolCallPart(call.id, call.function.name, JSON.parse(call.function.arguments) as object));
}

function toolResult({ tool_call_id, content }: WireMessage): Part {
  return new vscode.LanguageModelToolResultPart(tool_call_id ?? "", [new vscode.LanguageModelTextPart(typeof content === "string" ? content : "")]);
}
