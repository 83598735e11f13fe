import type { JSX } from "preact";
import { modeWords } from "../../permission/format";
import type { Mode } from "../../protocol.gen";
import { post } from "./host";
import { Icon, type IconName } from "./icons";
import { t } from "../../l10n";

const ICONS: Readonly<Record<Mode, IconName>> = { ask: "waiting", "accept-edits": "edit", plan: "plan", auto: "auto" };

/** The current mode, always visible; a click opens the choice. */
export function ModeButton({ mode }: { mode: Mode }): JSX.Element {
  const { label, detail } = modeWords(mode);
  return (
    <button
      type="button"
      class={`mode mode-${mode}`}
      aria-label={t("Mode: {0}", label)}
      aria-haspopup="menu"
      title={`${label}: ${detail}`}
      onClick={() => post({ type: "command", command: "setMode" })}
    >
      <Icon name={Object.hasOwn(ICONS, mode) ? ICONS[mode] : "waiting"} />
      <span>{label}</span>
      <Icon name="chevron" />
    </button>
  );
}

/** The current agent; a click opens the choice. */
export function AgentButton({ agent }: { agent: string }): JSX.Element {
  return (
    <button type="button" class="mode mode-ask agent" aria-label={t("Agent: {0}", agent)} aria-haspopup="menu" title={t("Agent {0}. Choose another agent.", agent)} onClick={() => post({ type: "command", command: "chooseAgent" })}>
      <Icon name="agent" />
      <span>{agent}</span>
      <Icon name="chevron" />
    </button>
  );
}

/** A line above the composer: restricted mode allows no changes, with a link to end it. */
export function Restricted(): JSX.Element {
  return (
    <div class="restricted" role="status">
      <Icon name="shield" />
      <span>
        {`${t("Restricted mode: nothing is changed or run.")} `}
        <button type="button" class="quiet" onClick={() => post({ type: "command", command: "manageTrust" })}>
          {t("Manage Workspace Trust")}
        </button>
      </span>
    </div>
  );
}
