import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { QueuedPrompt } from "../../protocol.gen";
import { handedLine } from "../handed";
import { post } from "./host";
import { Icon } from "./icons";
import { t } from "../../l10n";

/** Prompts that wait for the running turn to end. */
export function Queue({ queue }: { queue: readonly QueuedPrompt[] }): JSX.Element | null {
  if (queue.length === 0) return null;
  return (
    <ul class="queue" aria-label={t("Waiting prompts")}>
      {queue.map((prompt) => (
        <Waiting key={prompt.promptId} prompt={prompt} />
      ))}
    </ul>
  );
}

function Waiting({ prompt }: { prompt: QueuedPrompt }): JSX.Element {
  const [draft, setDraft] = useState<string | null>(null);
  const save = (): void => {
    if (draft !== null && draft.trim() && draft !== prompt.text) {
      post({ type: "editQueue", promptId: prompt.promptId, text: draft });
    }
    setDraft(null);
  };
  if (draft !== null) {
    return (
      <li class="editing">
        <textarea
          ref={(field) => field?.focus()}
          rows={2}
          aria-label={t("Edit waiting prompt")}
          value={draft}
          onInput={(event) => setDraft(event.currentTarget.value)}
          onKeyDown={(event) => {
            if (event.key === "Escape") setDraft(null);
            if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
            event.preventDefault();
            save();
          }}
        />
        <div class="buttons">
          <button type="button" class="primary" onClick={save}>
            {t("Save")}
          </button>
          <button type="button" onClick={() => setDraft(null)}>
            {t("Discard")}
          </button>
        </div>
      </li>
    );
  }
  return (
    <li>
      <span class="dim">{prompt.steer ? t("Next step") : t("Next")}</span>
      <span class="queued-text">{handedLine(prompt.text) ?? prompt.text}</span>
      <button type="button" class="symbol" aria-label={t("Edit")} title={t("Edit")} onClick={() => setDraft(prompt.text)}>
        <Icon name="edit" />
      </button>
      <button
        type="button"
        class="symbol"
        aria-label={t("Remove")}
        title={t("Remove")}
        onClick={() => post({ type: "editQueue", promptId: prompt.promptId, text: null })}
      >
        <Icon name="cross" />
      </button>
    </li>
  );
}
