/**
 * The user's language. Importing this module sets the translations, so it is imported before all others: they keep
 * translated texts in constants.
 */
import { readFileSync } from "node:fs";
import * as path from "node:path";
import * as vscode from "vscode";
import { setCatalogue } from "./l10n";

export type Language = "en" | "zh-CN";

/** Return the language from the setting `goalwright.language`, or else VS Code's display language. */
export function language(): Language {
  const wanted = vscode.workspace.getConfiguration("goalwright").get<Language | "auto">("language", "auto");
  if (wanted === "en" || wanted === "zh-CN") return wanted;
  return vscode.env.language.toLowerCase() === "zh-cn" ? "zh-CN" : "en";
}

/** Translations by English text: those of the web page, and what only the extension says. Empty in English, without reading a file. */
export const catalogue: Readonly<Record<string, string>> = language() === "en" ? {} : { ...read("dist", "page.zh-cn.json"), ...(vscode.l10n.bundle ?? read("l10n", "bundle.l10n.zh-cn.json")) };

setCatalogue(catalogue);

/** Read a translation file of the extension; empty if it cannot be read. */
function read(...name: string[]): Record<string, string> {
  try {
    return JSON.parse(readFileSync(path.join(__dirname, "..", ...name), "utf8")) as Record<string, string>;
  } catch (error) {
    console.error(`Goalwright: ${name.join("/")} cannot be read: ${String(error)}`);
    return {};
  }
}
