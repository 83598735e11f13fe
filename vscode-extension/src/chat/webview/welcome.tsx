import type { JSX } from "preact";
import type { Surrounding } from "../messages";
import { post } from "./host";
import { NoticeLine } from "./message";
import { t } from "../../l10n";

/** The empty chat: what this is, what to know about the model, and the way back to earlier sessions. */
export function Welcome({ surrounding }: { surrounding: Surrounding }): JSX.Element {
  const { notice, folder, folderNote, recent, demo } = surrounding;
  return (
    <div class="welcome">
      <p class="lead">{folder ? t("What should be done in {0}?", folder) : t("What should be done?")}</p>
      <p class="dim">
        {t("Goalwright plans your task as a tree of goals, shows every change as a diff, and writes only what you accept.")}
      </p>
      {notice && <NoticeLine level={demo ? "warning" : "info"} text={notice} />}
      {folderNote && <NoticeLine level="info" text={folderNote} />}
      {recent.length > 0 && (
        <section aria-label={t("Recent sessions")}>
          <h2>{t("Recent")}</h2>
          <ul class="recent">
            {recent.map(({ id, title, when, needs }) => (
              <li key={id}>
                <button type="button" onClick={() => post({ type: "openSession", sessionId: id })}>
                  <span class="recent-title">{title}</span>
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
