/** Agents as rows of a list. Pure. */
import type { AgentInfo } from "../protocol.gen";
import { oneLine } from "./format";
import { t } from "../l10n";

/** The default agent of sessions. */
export const USUAL_AGENT = "build";

const WHOSE: Readonly<Record<AgentInfo["source"], string>> = { shipped: "", user: t("yours"), workspace: t("from this folder") };

export function agentRow({ name, description, source, model }: AgentInfo): { label: string; description: string; detail: string } {
  const whose = Object.hasOwn(WHOSE, source) ? WHOSE[source] : source;
  return { label: name, description: [whose, model ?? ""].filter(Boolean).join(" · "), detail: oneLine(description) };
}
