/** Results of tool calls in words for the user, because the result's own text is written for the model. Pure. */
import { modeWords } from "../permission/format";
import type { Mode, ToolResultPart } from "../protocol.gen";
import { t } from "../l10n";

/** Explain why a call was rejected, and by whom. */
export function rejectionWords({ metadata, content }: ToolResultPart): string {
  const { by, feedback, mode, hook } = metadata;
  if (metadata["after_rejection"] === true || /^Permission denied: not run (?:after|because)/.test(content)) return t("Not run: you rejected the call before it.");
  if (by === "timeout") return t("Nobody answered in time, so this was rejected.");
  if (typeof hook === "object" && hook !== null) return content.replace(/^Permission denied\.\s*/, "");
  if (typeof mode === "string" && mode === "plan") return t("Not allowed in the mode {0}.", modeWords(mode as Mode).label);
  const words = said(feedback) ?? /(?:refused|rejected this call) and wrote: ([\s\S]+)$/.exec(content)?.[1];
  if (words) return t("You rejected this: “{0}”", words);
  if (metadata["rule"] === true || !(typeof by === "string" || /(?:refused|rejected) this call\.$/.test(content))) return t("Rejected by a rule.");
  return !by || by === "VS Code" ? t("You rejected this.") : t("You rejected this in {0}.", String(by));
}

/** Explain why a call was interrupted. */
export function stoppedWords({ metadata }: ToolResultPart): string {
  if (metadata["not_run"] === true) return metadata["canceled"] === true ? t("Stopped before you approved it: nothing was done.") : "";
  return t("Stopped. Part of it may have been done.");
}

const NOT_CHANGED = new Set(["edit", "write", "patch"]);

/** Explain why a call failed. The agent gets the details and continues. */
export function failureWords(name: string, metadata: ToolResultPart["metadata"]): string {
  if (!NOT_CHANGED.has(name) || metadata["diff"] !== undefined) return "";
  return t("Nothing was changed. {0}", said(metadata["told"]) ?? t("The agent sees the reason."));
}

function said(value: unknown): string | undefined {
  return typeof value === "string" && value.trim() ? value.trim() : undefined;
}
