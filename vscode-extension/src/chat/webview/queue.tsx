import type { JSX } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import type { QueuedPrompt } from "../../protocol.gen";
import { handedLine } from "../handed";
import { editOf, post, saveEdit } from "./host";
import { Icon } from "./icons";
import { t } from "../../l10n";

/** Prompts that wait for the running turn to end, or for the user to send them: when nothing runs, all of them. */
export function Queue({ queue, idle }: { queue: readonly QueuedPrompt[]; idle: boolean }): JSX.Element | null {
  if (queue.length === 0) return null;
  const held = idle ? queue : queue.filter((prompt) => prompt.held);
  const next = queue.filter((prompt) => !held.includes(prompt));
  const discard = (): void => {
    for (const { promptId } of held) post({ type: "editQueue", promptId, text: null });
  };
  return (
    <section class="queue" aria-label={t("Queue")}>
      {held.length > 0 && (
        <div class="buttons" role="status">
          <span>{t("{0} queued", held.length)}</span>
          <button type="button" class="primary" aria-label={t("Send what is queued")} onClick={() => post({ type: "sendQueue" })}>
            {t("Send")}
          </button>
          <button type="button" aria-label={t("Discard what is queued")} onClick={discard}>
            {t("Discard")}
          </button>
        </div>
      )}
      <ul aria-label={t("Waiting prompts")}>
        {[...held, ...next].map((prompt) => (
          <Waiting key={prompt.promptId} prompt={prompt} place={next.indexOf(prompt) + 1} />
        ))}
      </ul>
    </section>
  );
}

/** `place`: its number among those that follow by themselves, from 1; 0: it waits for the user. */
function Waiting({ prompt, place }: { prompt: QueuedPrompt; place: number }): JSX.Element {
  const { promptId } = prompt;
  const [draft, setDraft] = useState(() => editOf(promptId));
  const field = useRef<HTMLTextAreaElement>(null);
  const editing = draft !== null;
  const write = (text: string | null): void => {
    setDraft(text);
    saveEdit(promptId, text);
  };
  const hold = (held: boolean): void => {
    write(held ? prompt.text : null);
    post({ type: "holdQueue", promptId, held });
  };
  useEffect(() => {
    // It was being edited when the window was reloaded.
    if (draft !== null) post({ type: "holdQueue", promptId, held: true });
  }, [promptId]);
  // Only when it begins: the page is drawn again with each word of an answer, and the user may be writing elsewhere.
  useLayoutEffect(() => {
    if (editing) field.current?.focus();
  }, [editing]);
  const save = (): void => {
    const changed = draft !== null && draft.trim() !== "" && draft !== prompt.text;
    if (!changed) return hold(false);
    post({ type: "editQueue", promptId, text: draft });
    write(null);
  };
  if (draft !== null) {
    return (
      <li class="editing">
        <textarea
          ref={field}
          rows={2}
          dir="auto"
          aria-label={t("Edit waiting prompt")}
          value={draft}
          onInput={(event) => write(event.currentTarget.value)}
          onKeyDown={(event) => {
            if (event.key === "Escape" && !event.isComposing) hold(false);
            if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
            event.preventDefault();
            save();
          }}
        />
        <div class="buttons">
          <button type="button" class="primary" onClick={save}>
            {t("Save")}
          </button>
          <button type="button" onClick={() => hold(false)}>
            {t("Discard")}
          </button>
        </div>
      </li>
    );
  }
  return (
    <li>
      {place > 0 && <span class="dim">{prompt.steer ? t("Next step") : place === 1 ? t("Next") : `${place}.`}</span>}
      <span class="queued-text" dir="auto">{handedLine(prompt.text) ?? prompt.text}</span>
      <button type="button" class="symbol" aria-label={t("Edit")} title={t("Edit")} onClick={() => hold(true)}>
        <Icon name="edit" />
      </button>
      <button
        type="button"
        class="symbol"
        aria-label={t("Remove")}
        title={t("Remove")}
        onClick={() => post({ type: "editQueue", promptId, text: null })}
      >
        <Icon name="cross" />
      </button>
    </li>
  );
}
