import type { JSX } from "preact";
import { PROVIDER_NAMES } from "../../models/format";
import type { Surrounding } from "../messages";
import { TextButton } from "./buttons";
import { t } from "../../l10n";

const FIRST: readonly (keyof typeof PROVIDER_NAMES)[] = ["anthropic", "openai", "gemini", "openrouter", "vscode", "ollama", "lm_studio"];
/** The most used providers, any other server, and the list of all. */
const PROVIDERS: readonly (readonly [string, string])[] = [...FIRST.map((id) => [id, PROVIDER_NAMES[id]] as const), ["custom", t("Other server…")], ["", t("More…")]];

/** Buttons to connect a model when there is none. VS Code asks for keys itself; this page never sees one. */
export function Connect({ local }: { local: Surrounding["local"] }): JSX.Element {
  // Without a model of another extension there is nothing to connect.
  const shown = PROVIDERS.filter(([id]) => id !== "vscode" || local.includes(id)).sort(([a], [b]) => Number(local.includes(b)) - Number(local.includes(a)));
  return (
    <section class="connect" aria-labelledby="connect-title">
      <h2 id="connect-title">{t("Connect a model")}</h2>
      <p class="dim">{t("Your key stays on this machine, in VS Code's secret storage.")}</p>
      <div class="buttons">
        {shown.map(([id, name], index) => (
          <TextButton
            key={id}
            label={id === "vscode" ? t("Models of VS Code") : local.includes(id) ? t("{0} (running)", name) : name}
            class={index === 0 ? "primary" : ""}
            message={{ type: "command", command: "connectModel", args: id ? [id] : [] }}
          />
        ))}
      </div>
    </section>
  );
}
