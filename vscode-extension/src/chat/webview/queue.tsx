import type { JSX } from "preact";
import { useEffect, useLayoutEffect, useReducer, useRef } from "preact/hooks";
import type { QueuedPrompt } from "../../protocol.gen";
import { handedLine } from "../../composer/text";
import { IconButton, TextButton } from "./buttons";
import { onEnter } from "./hooks";
import { editOf, post, saveEdit, takeGone } from "./host";
import { t } from "../../l10n";

interface QueueProps {
  sessionId: string;
  queue: readonly QueuedPrompt[];
  idle: boolean;
  /** Called with the text that was being edited when its prompt was sent or removed elsewhere. */
  onGone: (text: string) => void;
}

/** Prompts that wait for the running turn, or, when nothing runs, for the user to send them. */
export function Queue({ sessionId, queue, idle, onGone }: QueueProps): JSX.Element | null {
  const [, redraw] = useReducer((times: number) => times + 1, 0);
  useLayoutEffect(() => {
    for (const text of takeGone(sessionId, queue)) onGone(text);
  }, [queue]);
  if (queue.length === 0) return null;
  const held = idle ? queue : queue.filter((prompt) => prompt.held);
  const next = queue.filter((prompt) => !held.includes(prompt));
  const write = ({ promptId, text: original }: QueuedPrompt, text: string | null): void => {
    saveEdit(promptId, text === null ? null : { sessionId, text, original });
    redraw(undefined);
  };
  const hold = (prompt: QueuedPrompt, draft: string | null): void => {
    write(prompt, draft);
    post({ type: "holdQueue", promptId: prompt.promptId, held: draft !== null });
  };
  const save = (prompt: QueuedPrompt): void => {
    const { promptId, text } = prompt;
    const draft = editOf(promptId);
    if (draft === null || draft.trim() === "" || draft === text) {
      hold(prompt, null);
      return;
    }
    post({ type: "editQueue", promptId, text: draft });
    write(prompt, null);
  };
  const send = (): void => {
    // The daemon does not send prompts that are being edited, so save them first.
    for (const prompt of held) if (editOf(prompt.promptId) !== null) save(prompt);
    post({ type: "sendQueue" });
  };
  const discard = (): void => {
    for (const { promptId } of held) {
      saveEdit(promptId, null);
      post({ type: "editQueue", promptId, text: null });
    }
  };
  return (
    <section class="queue" aria-label={t("Queue")}>
      {held.length > 0 && (
        <div class="buttons" role="status">
          <span>{t("{0} queued", held.length)}</span>
          <TextButton label={t("Send")} class="primary" aria-label={t("Send what is queued")} onClick={send} />
          <TextButton label={t("Discard")} aria-label={t("Discard what is queued")} onClick={discard} />
        </div>
      )}
      <ul aria-label={t("Waiting prompts")}>
        {[...held, ...next].map((prompt) => (
          <Waiting key={prompt.promptId} prompt={prompt} place={next.indexOf(prompt) + 1} draft={editOf(prompt.promptId)} write={write} hold={hold} save={save} />
        ))}
      </ul>
    </section>
  );
}

interface WaitingProps {
  prompt: QueuedPrompt;
  /** Position among the prompts that are sent automatically, from 1; 0 when the prompt waits for the user. */
  place: number;
  /** The edited text; null when the prompt is not being edited. */
  draft: string | null;
  write: (prompt: QueuedPrompt, text: string) => void;
  /** Start editing with a text, or cancel with null. */
  hold: (prompt: QueuedPrompt, draft: string | null) => void;
  save: (prompt: QueuedPrompt) => void;
}

function Waiting({ prompt, place, draft, write, hold, save }: WaitingProps): JSX.Element {
  const { promptId } = prompt;
  const field = useRef<HTMLTextAreaElement>(null);
  const editing = draft !== null;
  useEffect(() => {
    // The prompt was being edited when the window reloaded.
    if (editing) post({ type: "holdQueue", promptId, held: true });
  }, [promptId]);
  const edited = useRef(editing);
  // Focus only when editing starts here: after a reload, and whenever the page renders, the user may be typing elsewhere.
  useLayoutEffect(() => {
    if (editing && !edited.current) field.current?.focus();
    edited.current = editing;
  }, [editing]);
  if (draft !== null) {
    return (
      <li class="editing">
        <textarea
          ref={field}
          rows={2}
          dir="auto"
          aria-label={t("Edit waiting prompt")}
          value={draft}
          onInput={(event) => write(prompt, event.currentTarget.value)}
          onKeyDown={(event) => {
            if (event.key === "Escape" && !event.isComposing) hold(prompt, null);
            onEnter(event, () => save(prompt));
          }}
        />
        <div class="buttons">
          <TextButton label={t("Save")} class="primary" onClick={() => save(prompt)} />
          <TextButton label={t("Cancel")} onClick={() => hold(prompt, null)} />
        </div>
      </li>
    );
  }
  return (
    <li>
      {place > 0 && <span class="dim">{prompt.steer ? t("Next step") : place === 1 ? t("Next") : `${place}.`}</span>}
      <span class="queued-text" dir="auto">{handedLine(prompt.text) ?? prompt.text}</span>
      <IconButton icon="edit" label={t("Edit")} onClick={() => hold(prompt, prompt.text)} />
      <IconButton icon="cross" label={t("Remove")} message={{ type: "editQueue", promptId, text: null }} />
    </li>
  );
}
