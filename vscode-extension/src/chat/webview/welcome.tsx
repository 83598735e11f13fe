import type { JSX } from "preact";
import { PROVIDER_NAMES } from "../../models/words";
import type { Surrounding } from "../messages";
import { post } from "./host";
import { Icon } from "./icons";
import { NoticeLine } from "./message";
import { t } from "../../l10n";

const PROVIDERS: readonly (readonly [string, string])[] = [...Object.entries(PROVIDER_NAMES), ["custom", t("Other server…")]];

/** Without a model: where to get one. Keys are asked for by VS Code itself; this page never sees one. */
function Connect({ surrounding: { local } }: { surrounding: Surrounding }): JSX.Element {
  const shown = [...PROVIDERS].sort(([a], [b]) => Number(local.includes(b)) - Number(local.includes(a)));
  return (
    <section class="connect" aria-labelledby="connect-title">
      <h2 id="connect-title">{t("Connect a model")}</h2>
      <p class="dim">{t("Your key stays on this machine, in VS Code's secret storage.")}</p>
      <div class="buttons">
        {shown.map(([id, name], index) => (
          <button key={id} type="button" class={index === 0 ? "primary" : ""} onClick={() => post({ type: "connectModel", provider: id })}>
            {local.includes(id) ? t("{0} (running)", name) : name}
          </button>
        ))}
      </div>
    </section>
  );
}

/** The empty chat: what this is, what to know about the model, and the way back to earlier sessions. */
export function Welcome({ surrounding }: { surrounding: Surrounding }): JSX.Element {
  const { notice, folder, folderNote, recent, demo, examples } = surrounding;
  return (
    <div class="welcome">
      <p class="lead">{folder ? t("What should be done in {0}?", folder) : t("What should be done?")}</p>
      <p class="dim">
        {t("Goalwright plans your task as a tree of goals, shows every change as a diff, and writes only what you accept.")}
      </p>
      {demo && <Connect surrounding={surrounding} />}
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
          <button type="button" class="quiet" onClick={() => post({ type: "command", command: "chooseFolder" })}>
            {t("Change folder")}
          </button>
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
          <button type="button" class="quiet" onClick={() => post({ type: "moreSessions" })}>
            {t("All sessions…")}
          </button>
        </section>
      )}
    </div>
  );
}
