import type { JSX, RefObject } from "preact";
import { useLayoutEffect, useState } from "preact/hooks";
import { post, save, saved } from "./host";
import { Icon } from "./icons";
import { ModeButton } from "./mode";
import { isBusy, type ViewState } from "./store";

interface ComposerProps {
  view: ViewState;
  field: RefObject<HTMLTextAreaElement | null>;
  /** Called when a prompt is sent: the reader wants to see what comes. */
  onSent: () => void;
}

export function Composer({ view, field, onSent }: ComposerProps): JSX.Element {
  const [text, setText] = useState(saved().draft);
  const busy = isBusy(view);
  const { phase } = view.surrounding.connection;
  const model = view.session?.session.model || view.surrounding.model;
  const possible = phase !== "noFolder" && phase !== "failed" && phase !== "installing";
  const change = (value: string): void => {
    setText(value);
    save({ draft: value });
  };
  useLayoutEffect(() => {
    // As high as its text, up to what the style allows.
    const element = field.current;
    if (!element) return;
    element.style.height = "auto";
    element.style.height = `${element.scrollHeight + 2}px`;
  }, [text, field]);
  const send = (steer = false): void => {
    if (!text.trim() || !possible) return;
    post({ type: "prompt", text: text.trim(), ...(steer && busy ? { steer } : {}) });
    change("");
    field.current?.focus();
    onSent();
  };
  return (
    <form
      class="composer"
      onSubmit={(event) => {
        event.preventDefault();
        send();
      }}
    >
      <textarea
        ref={field}
        rows={1}
        aria-label="Message Goalwright"
        placeholder={busy ? "Add to the queue…" : "Describe a task…"}
        value={text}
        onInput={(event) => change(event.currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
          event.preventDefault();
          send(event.ctrlKey || event.metaKey);
        }}
      />
      <div class="composer-bar">
        <ModeButton mode={view.session?.session.mode ?? view.surrounding.mode} />
        <button
          type="button"
          class="symbol"
          aria-label="Permissions"
          title="Permissions: what was granted, and the rules"
          onClick={() => post({ type: "command", command: "managePermissions" })}
        >
          <Icon name="shield" />
        </button>
        <span class="model" title={model}>
          {model.split("/").at(-1)}
        </span>
        {busy && (
          <button type="button" class="round" aria-label="Stop" title="Stop" onClick={() => post({ type: "cancel" })}>
            <Icon name="stop" />
          </button>
        )}
        {busy && (
          <button
            type="button"
            class="symbol"
            aria-label="Send for the next step"
            title="Send for the next step of the running turn (Ctrl+Enter)"
            disabled={!text.trim() || !possible}
            onClick={() => send(true)}
          >
            <Icon name="steer" />
          </button>
        )}
        <button
          type="submit"
          class="round send"
          aria-label="Send"
          title={busy ? "Send when the running turn ends (Enter)" : "Send (Enter)"}
          disabled={!text.trim() || !possible}
        >
          <Icon name="send" />
        </button>
      </div>
    </form>
  );
}
