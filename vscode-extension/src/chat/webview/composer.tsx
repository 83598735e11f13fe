import type { JSX, RefObject } from "preact";
import { useLayoutEffect, useState } from "preact/hooks";
import type { Attachment } from "../../session/controller";
import type { PermissionRequest } from "../../protocol.gen";
import { contentsOf, pathsOf } from "./attach";
import { post, save, saved } from "./host";
import { Icon } from "./icons";
import { ModeButton } from "./mode";
import { isBusy, type ViewState } from "./store";
import { visibleLine } from "./visible";
import { t } from "../../l10n";

interface ComposerProps {
  view: ViewState;
  /** The open request, which a text answers. */
  request: PermissionRequest | undefined;
  field: RefObject<HTMLTextAreaElement | null>;
  /** Called when a prompt is sent: the reader wants to see what comes. */
  onSent: () => void;
}

export function Composer({ view, request, field, onSent }: ComposerProps): JSX.Element {
  const [text, setText] = useState(saved().draft);
  const [files, setFiles] = useState(saved().attachments ?? []);
  const [problem, setProblem] = useState("");
  const busy = isBusy(view);
  const { phase } = view.surrounding.connection;
  const model = view.session?.session.model || view.surrounding.model;
  const possible = phase !== "noFolder" && phase !== "failed" && phase !== "installing";
  const ready = (text.trim() !== "" || files.length > 0) && possible;
  const attach = (attachments: Attachment[]): void => {
    setFiles(attachments);
    setProblem("");
    save({ attachments });
  };
  /** True when there is something among it to attach. */
  const take = (given: DataTransfer | null): boolean => {
    const paths = pathsOf(given);
    const contents = [...(given?.files ?? [])];
    if (paths.length === 0 && contents.length === 0) return false;
    if (paths.length > 0) attach([...files, ...paths]);
    else
      void contentsOf(contents).then(
        (read) => attach([...(saved().attachments ?? []), ...read]),
        (error: Error) => setProblem(error.message),
      );
    return true;
  };
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
  // Files are no answer to a request.
  const answers = request !== undefined && files.length === 0;
  const send = (how: "answer" | "queue" | "steer" = "queue"): void => {
    if (!ready) return;
    if (how === "answer" && answers) post({ type: "reply", requestId: request.requestId, answer: { reply: "reject", feedback: text.trim() } });
    else post({ type: "prompt", text: text.trim(), attachments: files, ...(how === "steer" && busy ? { steer: true } : {}) });
    change("");
    attach([]);
    field.current?.focus();
    onSent();
  };
  return (
    <form
      class="composer"
      onDragOver={(event) => event.preventDefault()}
      onDrop={(event) => {
        if (take(event.dataTransfer)) event.preventDefault();
      }}
      onSubmit={(event) => {
        event.preventDefault();
        send("answer");
      }}
    >
      {files.length > 0 && (
        <ul class="attachments" aria-label={t("Attachments")}>
          {files.map((file, index) => (
            <li key={index} class="chip">
              <span title={visibleLine(file.name)}>{visibleLine(file.name.split(/[\\/]/).at(-1) ?? file.name)}</span>
              <button type="button" aria-label={t("Remove {0}", visibleLine(file.name))} onClick={() => attach(files.filter((_, at) => at !== index))}>
                <Icon name="cross" />
              </button>
            </li>
          ))}
        </ul>
      )}
      {problem && (
        <p class="refused" role="alert">
          <Icon name="warning" />
          <span>{visibleLine(problem)}</span>
        </p>
      )}
      <textarea
        ref={field}
        onPaste={(event) => {
          if ((event.clipboardData?.files.length ?? 0) > 0 && take(event.clipboardData)) event.preventDefault();
        }}
        rows={1}
        aria-label={t("Message Goalwright")}
        placeholder={answers ? t("Say what to do instead… (Alt+Enter queues)") : busy ? t("Add to the queue…") : t("Describe a task…")}
        value={text}
        onInput={(event) => change(event.currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
          event.preventDefault();
          send(event.ctrlKey || event.metaKey ? "steer" : event.altKey ? "queue" : "answer");
        }}
      />
      <div class="composer-bar">
        <button type="button" class="symbol" aria-label={t("Attach files")} title={t("Attach files (or paste, or drop with Shift)")} onClick={() => post({ type: "pickFiles" })}>
          <Icon name="attach" />
        </button>
        <ModeButton mode={view.session?.session.mode ?? view.surrounding.mode} />
        <button
          type="button"
          class="symbol"
          aria-label={t("Permissions")}
          title={t("Permissions: what was granted, and the rules")}
          onClick={() => post({ type: "command", command: "managePermissions" })}
        >
          <Icon name="shield" />
        </button>
        <button
          type="button"
          class="model"
          aria-label={t("Model: {0}", model)}
          aria-haspopup="menu"
          title={t("{0}. Choose another model.", model)}
          onClick={() => post({ type: "command", command: "chooseModel" })}
        >
          <span>{model.split("/").at(-1)}</span>
          <Icon name="chevron" />
        </button>
        {busy && (
          <button type="button" class="round" aria-label={t("Stop")} title={t("Stop")} onClick={() => post({ type: "cancel" })}>
            <Icon name="stop" />
          </button>
        )}
        {busy && (
          <button
            type="button"
            class="symbol"
            aria-label={t("Send for the next step")}
            title={t("Send for the next step of the running turn (Ctrl+Enter)")}
            disabled={!text.trim() || !possible}
            onClick={() => send("steer")}
          >
            <Icon name="steer" />
          </button>
        )}
        <button
          type="submit"
          class="round send"
          aria-label={t("Send")}
          title={answers ? t("Reject the request with this text (Enter)") : busy ? t("Send when the running turn ends (Enter)") : t("Send (Enter)")}
          disabled={!ready}
        >
          <Icon name="send" />
        </button>
      </div>
    </form>
  );
}
