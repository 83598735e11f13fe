/** The header above the record of a branch or sub-agent: its title and a button back to the session. */
import type { JSX } from "preact";
import { askerName } from "../../explore/format";
import type { SessionState } from "../../session/state";
import { post } from "./host";
import { Icon } from "./icons";
import { visibleLine } from "./visible";
import { t } from "../../l10n";

export function RecordHead({ record }: { record: SessionState }): JSX.Element {
  const { traceId, title } = record.session.trace;
  const name = askerName(traceId.split(":")[1] ?? "");
  return (
    <header class="bar">
      <button type="button" class="symbol" aria-label={t("Back to the session")} title={t("Back to the session")} onClick={() => post({ type: "closeRecord" })}>
        <Icon name="back" />
      </button>
      <h1 title={title} dir="auto">{visibleLine([name, title].filter(Boolean).join(" · "))}</h1>
    </header>
  );
}

export function RecordBar({ record }: { record: SessionState }): JSX.Element {
  const live = record.session.status !== "idle";
  return (
    <div class="record" role="status">
      <Icon name={live ? "running" : "plan"} />
      <span>
        {`${live ? t("Live, read-only.") : t("Read-only transcript.")} `}
        <button type="button" class="quiet" onClick={() => post({ type: "closeRecord" })}>
          {t("Back to the session")}
        </button>
      </span>
    </div>
  );
}
