import type { FinishPart, Message, StopReason } from "../protocol.gen";
import { t } from "../l10n";

export function finishOf(message: Message): FinishPart | undefined {
  return message.content.find((part) => part.type === "finish");
}

/** Return a notice about the end of a turn; undefined for ordinary ends. */
export function stopNotice(
  reason: StopReason,
  detail: string,
): { level: "info" | "warning" | "error"; text: string } | undefined {
  switch (reason) {
    case "end_turn":
    case "tool_use":
      return undefined;
    case "canceled":
      // The daemon's text says the same in more words.
      return { level: "info", text: detail.startsWith("Canceled") ? t("Stopped.") : detail || t("Stopped.") };
    case "permission_denied":
      return { level: "info", text: detail || t("Stopped: you rejected the request.") };
    case "max_tokens":
      return { level: "warning", text: detail || t("The answer was cut off at the model's output limit.") };
    case "error":
      return { level: "error", text: detail || t("The turn ended with an error. The log has more.") };
  }
}
