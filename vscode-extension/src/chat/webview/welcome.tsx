import type { JSX } from "preact";
import type { Surrounding } from "../messages";
import { TextButton } from "./buttons";
import { post } from "./host";
import { Icon } from "./icons";
import { NoticeLine } from "./message";
import { PROVIDER_NAMES } from "../../protocol.gen";
import { t } from "../../l10n";

/** The empty chat: introduction, notice about the model, and recent sessions. */
export function Welcome({ surrounding }: { surrounding: Surrounding }): JSX.Element {
  const { notice, folder, folderNote, recent, demo, examples } = surrounding;
  return (
    <div class="welcome">
      <p class="lead">{folder ? t("What would you like to do in {0}?", folder) : t("What would you like to do?")}</p>
      <p class="dim">
        {t("Goalwright plans your task as a tree of goals, shows every change as a diff, and writes only what you accept.")}
      </p>
      {demo && <Connect local={surrounding.local} />}
      {notice && <NoticeLine level="info" text={notice} />}
      {examples.length > 0 && (
        <section aria-label={t("Examples")} class="examples">
          {demo && <h2>{t("Or try the demo")}</h2>}
          {examples.map((text) => (
            <button key={text} type="button" onClick={() => post({ type: "prompt", text, attachments: [] })}>
              <Icon name="send" />
              <span>{text}</span>
            </button>
          ))}
        </section>
      )}
      {folderNote && (
        <NoticeLine level="info" text={folderNote}>
          <TextButton label={t("Change folder")} class="quiet" message={{ type: "command", command: "chooseFolder" }} />
        </NoticeLine>
      )}
      {recent.length > 0 && (
        <section aria-label={t("Recent sessions")}>
          <h2>{t("Recent")}</h2>
          <ul class="recent">
            {recent.map(({ id, title, when, needs }) => (
              <li key={id}>
                <button type="button" onClick={() => post({ type: "openSession", sessionId: id })}>
                  <span class="recent-title" dir="auto">{title}</span>
                  <span class={needs ? "needs" : "dim"}>{when}</span>
                </button>
              </li>
            ))}
          </ul>
          <TextButton label={t("All sessions…")} class="quiet" message={{ type: "command", command: "openSession" }} />
        </section>
      )}
    </div>
  );
}

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
