import type { JSX, RefObject } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { namedIn, promptsOf, withoutMention } from "../../composer/text";
import { type Answer, emptyAnswers, isQuestion, withWords } from "../../permission/answers";
import type { PermissionRequest } from "../../protocol.gen";
import type { ToWebview } from "../messages";
import { IconButton, TextButton } from "./buttons";
import { Chips, contentsOf, pathsOf } from "./chips";
import { useCompletions } from "./completion";
import { draftOf, post, saveDraft, takeAnswer, takeBack, type Chip, type Draft } from "./host";
import { Icon } from "./icons";
import { NoticeLine } from "./message";
import { Refused } from "./request_card";
import { AgentButton, ModeButton, ModelButton } from "./mode";
import type { ViewState } from "./store";
import { t } from "../../l10n";

/** Turn a text into an answer: the answer to a question, or feedback that rejects any other request. */
function answerTo(request: PermissionRequest, text: string): Answer {
  if (!isQuestion(request)) return { reply: "reject", feedback: text };
  return { reply: "once", answers: withWords(takeAnswer(request).answers ?? emptyAnswers(request.questions), text) };
}

interface ComposerProps {
  view: ViewState;
  /** The open request that a text answers. */
  request: PermissionRequest | undefined;
  field: RefObject<HTMLTextAreaElement | null>;
  /** A number that increases when the draft changes elsewhere. */
  version: number;
  /** Called when a prompt is sent, to scroll to the end. */
  onSent: () => void;
}

export function Composer({ view, request, field, version, onSent }: ComposerProps): JSX.Element {
  const id = view.session?.session.trace.traceId ?? "";
  const [draft, setDraft] = useState<Draft>(() => draftOf(id));
  const { text, files, instead } = draft;
  const [problem, setProblem] = useState("");
  /** The reason why a mention could not be resolved. */
  const [note, setNote] = useState("");
  /** Mentions in the text that the host was asked to attach. */
  const named = useRef(new Set<string>());
  /** Index of the earlier prompt in the field; -1: none. */
  const [browsed, setBrowsed] = useState(-1);
  const owner = useRef(id);
  const put = (next: Draft): void => {
    saveDraft(id, next);
    // Another session may be shown since a file of this draft began to be read.
    if (owner.current === id) setDraft(next);
  };
  useLayoutEffect(() => {
    const before = owner.current;
    owner.current = id;
    const stored = draftOf(id);
    if (before === "" && id !== "" && view.outbox.length > 0 && stored.text === "" && stored.files.length === 0) {
      // The session's first prompt is under way, so text typed since belongs to the session.
      saveDraft("", { text: "", files: [] });
      put(draft);
    } else setDraft(stored);
    setBrowsed(-1);
  }, [id, version]);
  useEffect(() => {
    const onMessage = ({ data }: MessageEvent<ToWebview>): void => {
      if (data.type !== "unattached") return;
      const owner = data.sessionId ?? id;
      const now = draftOf(owner);
      const without = { ...now, text: withoutMention(now.text, data.mention) };
      if (owner !== id) {
        saveDraft(owner, without);
        return;
      }
      put(without);
      setNote(data.reason);
    };
    window.addEventListener("message", onMessage);
    return () => window.removeEventListener("message", onMessage);
  }, [id]);
  // A turn runs or waits for an answer.
  const busy = view.session !== null && view.session.session.status !== "idle";
  const { phase } = view.surrounding.connection;
  const model = view.session?.session.model || view.surrounding.model;
  const possible = phase !== "noFolder" && phase !== "failed" && phase !== "installing";
  const ready = (text.trim() !== "" || files.length > 0) && possible;
  /** Attach pasted or dropped data; true when there was something to attach. */
  const take = (given: DataTransfer | null): boolean => {
    const paths = pathsOf(given);
    const contents = [...(given?.files ?? [])];
    if (paths.length === 0 && contents.length === 0) return false;
    setProblem("");
    if (paths.length > 0) put({ ...draft, files: [...files, ...paths] });
    else
      void contentsOf(contents).then(
        (read) => {
          const now = draftOf(id);
          put({ ...now, files: [...now.files, ...read] });
        },
        (error: Error) => setProblem(error.message),
      );
    return true;
  };
  const change = (value: string): void => {
    setNote("");
    for (const mention of named.current) if (!value.includes(mention)) named.current.delete(mention);
    put({ ...draft, text: value, files: files.filter(({ mention }) => mention === undefined || value.includes(mention)) });
  };
  const remove = (index: number): void => {
    const mention = files[index]?.mention;
    put({ ...draft, text: mention === undefined ? text : withoutMention(text, mention), files: files.filter((_, at) => at !== index) });
  };
  const completions = useCompletions(field, (value, { mention, insert, send: sends }) => {
    if (sends && value.trim() === insert.trim()) return submit(insert.trim(), files);
    change(value);
    if (mention === undefined) return;
    named.current.add(insert.trim());
    post({ type: "mention", key: mention, text: insert.trim() });
  });
  /** Attach complete mentions in the text. The word at the caret may be incomplete. */
  const attachNamed = (value: string, caret: number): void => {
    for (const { mention, key, end } of namedIn(value)) {
      if (end === caret || named.current.has(mention) || files.some((file) => file.mention === mention)) continue;
      named.current.add(mention);
      post({ type: "mention", key, text: mention, written: true });
    }
  };
  /** Go through the session's earlier prompts with Up and Down in an empty field. True when there is one. */
  const browse = (event: KeyboardEvent): boolean => {
    const { selectionStart, value } = event.currentTarget as HTMLTextAreaElement;
    const by = event.key === "ArrowUp" ? 1 : event.key === "ArrowDown" ? -1 : 0;
    if (by === 0 || event.shiftKey || event.altKey || event.ctrlKey || event.metaKey || (browsed < 0 && value !== "") || selectionStart !== value.length) return false;
    const prompts = promptsOf(view.session?.items ?? []);
    const next = browsed + by;
    if (next < -1 || next >= prompts.length) return false;
    setBrowsed(next);
    change(prompts[next] ?? "");
    return true;
  };
  useLayoutEffect(() => {
    // Grow with the text up to the style's limit.
    const element = field.current;
    if (!element) return;
    element.style.height = "auto";
    element.style.height = `${element.scrollHeight + 2}px`;
  }, [text, field]);
  const answers = request !== undefined && instead === undefined;
  const asked = answers && isQuestion(request);
  // An answer stays here until a daemon can receive it.
  const away = answers && phase !== "connected";
  const submit = (prompt: string, attached: readonly Chip[], how: "answer" | "queue" | "steer" = "queue"): void => {
    const attachments = attached.map(({ mention: _, ...file }) => file);
    if (how === "answer" && answers) {
      const names = attached.map(({ name, mention }) => mention ?? name).join(", ");
      post({ type: "reply", requestId: request.requestId, answer: answerTo(request, prompt || names), typed: prompt });
      // An answer is text only, so its attachments follow as a prompt.
      if (attachments.length > 0) post({ type: "prompt", text: names, attachments, steer: true });
    } else post({ type: "prompt", text: prompt, attachments, ...(instead === undefined ? {} : { instead }), ...(how === "steer" && busy ? { steer: true } : {}) });
    put(takeBack(id));
    named.current.clear();
    // Completions for the sent text may still arrive.
    completions.close();
    setNote("");
    setBrowsed(-1);
    field.current?.focus();
    onSent();
  };
  const send = (how: "answer" | "queue" | "steer" = "queue"): void => {
    if (ready && !(away && how === "answer")) submit(text.trim(), files, how);
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
      {instead !== undefined && (
        <div class="instead" role="status">
          <Icon name="edit" />
          <span>{t("Editing an earlier message. The messages after it stay in the original session; this one continues without them.")}</span>
          <TextButton label={t("Cancel")} onClick={() => put(takeBack(id))} />
        </div>
      )}
      <Chips files={files} active={view.surrounding.active} onRemove={remove} />
      <Refused error={problem} />
      {note && <NoticeLine level="info" text={note} />}
      {completions.list}
      <textarea
        ref={field}
        {...completions.aria}
        onPaste={(event) => {
          if ((event.clipboardData?.files.length ?? 0) > 0 && take(event.clipboardData)) event.preventDefault();
        }}
        rows={1}
        dir="auto"
        aria-label={t("Message Goalwright")}
        placeholder={asked ? t("Answer in your own words… (Alt+Enter queues)") : answers ? t("Say what to do instead… (Alt+Enter queues)") : busy ? t("Add to the queue…") : t("Describe a task… @ for context, / for commands")}
        value={text}
        onInput={(event) => {
          const { value, selectionStart } = event.currentTarget;
          change(value);
          attachNamed(value, event.inputType === "insertFromPaste" ? -1 : selectionStart);
          setBrowsed(-1);
          completions.look();
        }}
        onSelect={completions.look}
        onBlur={completions.close}
        onKeyDown={(event) => {
          if (completions.key(event)) return;
          if (browse(event)) return event.preventDefault();
          if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
          event.preventDefault();
          send(event.ctrlKey || event.metaKey ? "steer" : event.altKey ? "queue" : "answer");
        }}
      />
      <div class="composer-bar">
        <IconButton icon="attach" label={t("Attach files")} title={t("Attach files (or paste, or drop with Shift)")} message={{ type: "pickFiles" }} />
        <ModeButton mode={view.session?.session.mode ?? view.surrounding.mode} />
        <AgentButton agent={view.session?.session.trace.agent ?? view.surrounding.agent} />
        <IconButton icon="shield" label={t("Permissions")} title={t("Permissions: what was granted, and the rules")} message={{ type: "command", command: "managePermissions" }} />
        <ModelButton model={model} />
        {busy && (
          <IconButton icon="stop" label={t("Stop")} class="round" message={{ type: "cancel" }} />
        )}
        {busy && (
          <IconButton
            icon="steer"
            label={t("Send for the next step")}
            title={t("Send for the next step of the running turn (Ctrl+Enter)")}
            disabled={!text.trim() || !possible}
            onClick={() => send("steer")}
          />
        )}
        <button
          type="submit"
          class="round send"
          aria-label={t("Send")}
          title={away ? t("Not connected: answer when Goalwright is connected again") : asked ? t("Send as the answer (Enter)") : answers ? t("Reject the request with this text (Enter)") : busy ? t("Send when the running turn ends (Enter)") : t("Send (Enter)")}
          disabled={!ready || away}
        >
          <Icon name="send" />
        </button>
      </div>
    </form>
  );
}
