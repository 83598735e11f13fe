import type { JSX } from "preact";
import { modeWords } from "../../permission/format";
import type { Mode } from "../../protocol.gen";
import type { PageCommand } from "../messages";
import { TextButton } from "./buttons";
import { post } from "./host";
import { Icon, type IconName } from "./icons";
import { t } from "../../l10n";

const ICONS: Readonly<Record<Mode, IconName>> = { ask: "waiting", "accept-edits": "edit", plan: "plan", auto: "auto" };

/** The current mode, always visible; a click opens the choice. */
export function ModeButton({ mode }: { mode: Mode }): JSX.Element {
  const { label, detail } = modeWords(mode);
  return (
    <Chooser command="setMode" class={`mode mode-${mode}`} label={t("Mode: {0}", label)} title={`${label}: ${detail}`} words={label}>
      <Icon name={Object.hasOwn(ICONS, mode) ? ICONS[mode] : "waiting"} />
    </Chooser>
  );
}

/** The current agent; a click opens the choice. */
export function AgentButton({ agent }: { agent: string }): JSX.Element {
  return (
    <Chooser command="chooseAgent" class="mode mode-ask agent" label={t("Agent: {0}", agent)} title={t("Agent {0}. Choose another agent.", agent)} words={agent}>
      <Icon name="agent" />
    </Chooser>
  );
}

/** The current model; a click opens the choice. */
export function ModelButton({ model }: { model: string }): JSX.Element {
  return <Chooser command="chooseModel" class="model" label={t("Model: {0}", model)} title={t("{0}. Choose another model.", model)} words={model.split("/").at(-1)} />;
}

interface ChooserProps {
  command: PageCommand;
  class: string;
  label: string;
  title: string;
  words: string | undefined;
  children?: JSX.Element;
}

function Chooser({ command, label, words, children, ...rest }: ChooserProps): JSX.Element {
  return (
    <button type="button" aria-label={label} aria-haspopup="menu" onClick={() => post({ type: "command", command })} {...rest}>
      {children}
      <span>{words}</span>
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
        <TextButton label={t("Manage Workspace Trust")} class="quiet" message={{ type: "command", command: "manageTrust" }} />
      </span>
    </div>
  );
}
