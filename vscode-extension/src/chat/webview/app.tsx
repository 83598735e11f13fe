import type { JSX } from "preact";
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { chain } from "../../goals/tree";
import { firstSequence, type SessionState } from "../../session/state";
import { isBudget } from "../../meter/model";
import type { Surrounding, ToWebview } from "../messages";
import { IconButton, TextButton } from "./buttons";
import { Announcer } from "./announcer";
import { Approval } from "./approval";
import { Composer } from "./composer";
import { Welcome } from "./welcome";
import { useKeptFocus } from "./focus";
import { draftOf, keepRefused, keptDraft, post, saveDraft, setAside, takeBegun, takeEnded, type Draft } from "./host";
import { MeterPanel } from "./meter";
import { Restricted } from "./mode";
import { PlanStrip, showSection } from "./plan";
import { Queue } from "./queue";
import { useScroll } from "./scroll";
import { EMPTY, reduce, type ViewState } from "./store";
import { Transcript, Unsent } from "./transcript";
import { askerName } from "../../explore/format";
import { Icon } from "./icons";
import { visibleLine } from "./visible";
import { t } from "../../l10n";

const NOBODY: ViewState["outbox"] = [];
const NO_CHANGES: ViewState["changes"] = {};

export function App(): JSX.Element {
  const [view, setView] = useState<ViewState>(EMPTY);
  const [version, setVersion] = useState(0);
  const [front, setFront] = useState("");
  const latest = useRef(view);
  const box = useRef<HTMLDivElement>(null);
  const content = useRef<HTMLDivElement>(null);
  const field = useRef<HTMLTextAreaElement>(null);

  const change = useCallback((next: ViewState) => {
    latest.current = next;
    setView(next);
  }, []);

  const loadEarlier = useCallback(() => {
    const { loadingEarlier } = latest.current;
    const session = latest.current.record ?? latest.current.session;
    const before = session && firstSequence(session);
    if (!session?.hasEarlier || loadingEarlier || before === undefined || before === null) return;
    change({ ...latest.current, loadingEarlier: true });
    post({ type: "earlier", sessionId: session.session.trace.traceId, before });
  }, [change]);

  // After a failure only a click tries again, or each movement at the top would.
  const failed = useRef(false);
  const onTop = useCallback(() => {
    if (!failed.current) loadEarlier();
  }, [loadEarlier]);
  const scroll = useScroll(box, content, onTop);
  const { following, hold, toEnd } = scroll;
  useKeptFocus(field);

  const addToDraft = useCallback((text: string) => {
    const id = keptDraft(latest.current.session?.session.trace.traceId ?? "");
    saveDraft(id, changed(draftOf(id), { type: "restore", text, attachments: [] }));
    setVersion((n) => n + 1);
  }, []);

  useEffect(() => {
    const onMessage = (event: MessageEvent<ToWebview>): void => {
      const message = event.data;
      const sessionId = latest.current.session?.session.trace.traceId;
      const recordId = latest.current.record?.session.trace.traceId;
      if (message.type === "earlier") {
        hold();
        failed.current = message.earlier.hasEarlier && message.earlier.messages.length === 0;
      }
      const begun = message.type === "updates" && message.of === "session" ? takeBegun(latest.current.session, message.updates) : [];
      change(reduce(latest.current, message, following.current));
      const now = latest.current;
      const ended = now.session && !now.previewed && atRest(now.session, message) ? takeEnded(now.session) : [];
      for (const words of [...begun, ...ended]) addToDraft(words);
      if (message.type === "refused") keepRefused(message.requestId);
      if (message.type === "focus") {
        const { activeElement, body } = document;
        if (message.last && activeElement !== body) (activeElement as HTMLElement | null)?.focus();
        else field.current?.focus();
      }
      if (message.type === "showGoal") {
        const tree = latest.current.session?.goalTree;
        // A goal that only groups others has no lines, so show the first goal below it that has some.
        if (!showSection(message.goalId)) tree?.goals.some((goal) => chain(tree, goal.id).some(({ id }) => id === message.goalId) && showSection(goal.id));
      }
      if (message.type === "insert" || message.type === "restore" || message.type === "attach") {
        const owner = (message.type === "insert" ? undefined : message.sessionId) ?? sessionId ?? "";
        const edited = draftOf(owner).instead;
        const editing = message.type === "restore" && message.instead !== undefined;
        const id = message.type === "restore" && !editing ? keptDraft(owner) : owner;
        if (editing && edited === undefined) setAside(id);
        // A second click on the same message leaves its edit; what comes back from a failed one is added to it.
        const again = editing && edited === message.instead && message.sessionId === undefined;
        if (!again) saveDraft(id, changed(draftOf(id), message));
        setVersion((n) => n + 1);
      }
      if (message.type === "state") {
        const { session: loaded, record: opened } = message.state;
        const anotherRecord = opened !== undefined && opened?.session.trace.traceId !== recordId;
        if (loaded === undefined ? anotherRecord : loaded?.session.trace.traceId !== sessionId) {
          failed.current = false;
          toEnd();
        }
      }
    };
    window.addEventListener("message", onMessage);
    post({ type: "ready" });
    return () => {
      window.removeEventListener("message", onMessage);
    };
  }, [addToDraft, change, following, hold, toEnd]);

  const { session, surrounding, record } = view;
  const request = session?.pending.find(({ requestId }) => requestId === front) ?? session?.pending[0];
  const outbox = record ? NOBODY : view.outbox;
  const shown = record ?? session;
  const empty = !record && (!session || session.items.length === 0) && !session?.streaming && outbox.length === 0;
  return (
    <>
      <Header view={view} />
      <main>
        <div class="scroller" ref={box}>
          <div class="transcript" role="log" aria-label={t("Conversation")} aria-live="off" ref={content}>
            {shown?.hasEarlier && (
              <TextButton label={view.loadingEarlier ? t("Loading…") : t("Show earlier messages")} class="quiet earlier" disabled={view.loadingEarlier} onClick={loadEarlier} />
            )}
            {empty && <Welcome surrounding={surrounding} />}
            {shown && <Transcript key={shown.session.trace.traceId} session={shown} outbox={outbox} changes={record ? NO_CHANGES : view.changes} own={!record} explored={view.explored} local={surrounding.local} />}
            {!session && <Unsent outbox={outbox} />}
          </div>
        </div>
        {!scroll.atEnd && (
          <IconButton icon="down" label={t("Scroll to the latest message")} class="round to-end" onClick={toEnd} />
        )}
      </main>
      <footer>
        <Connection connection={surrounding.connection} />
        {session && request && (
          <Approval requests={session.pending} request={request} choices={view.choices} keys={surrounding.keys} places={surrounding.places} onFront={setFront} away={surrounding.connection.phase !== "connected"} />
        )}
        {session && !record && !view.previewed && <Queue key={session.session.trace.traceId} sessionId={session.session.trace.traceId} queue={session.queue} idle={session.session.status === "idle"} onGone={addToDraft} />}
        {session && !record && <PlanStrip session={session} changes={view.changes} />}
        {session?.meter && !record && <MeterPanel meter={session.meter} tree={session.goalTree} />}
        {surrounding.restricted && <Restricted />}
        {record ? <RecordBar record={record} /> : <Composer view={view} request={request && !isBudget(request) ? request : undefined} field={field} version={version} onSent={toEnd} />}
      </footer>
      <Announcer session={session} shown={shown} />
    </>
  );
}

/** Return true if a message tells that the session's turn has ended, or brings the session without one. */
function atRest({ session }: SessionState, message: ToWebview): boolean {
  if (message.type === "state") return "session" in message.state && session.status === "idle";
  return message.type === "updates" && message.of === "session" && message.updates.some((update) => "event" in update && update.event.event === "turn_ended");
}

/** Return the draft with the host's text or files added. */
function changed(draft: Draft, message: Extract<ToWebview, { type: "insert" | "restore" | "attach" }>): Draft {
  const { text, files } = draft;
  if (message.type === "insert") return { ...draft, text: text && !/\s$/.test(text) ? `${text} ${message.text}` : text + message.text };
  if (message.type === "restore") {
    const { instead = draft.instead } = message;
    return { text: [message.text, text].filter(Boolean).join("\n\n"), files: [...message.attachments, ...files], ...(instead === undefined ? {} : { instead }) };
  }
  const { mention } = message;
  // The mention was deleted or sent meanwhile.
  if (mention !== undefined && !text.includes(mention)) return draft;
  return { ...draft, files: [...files, ...message.attachments.map((file) => ({ ...file, ...(mention === undefined ? {} : { mention }) }))] };
}

function Header({ view }: { view: ViewState }): JSX.Element {
  const { session, surrounding, record } = view;
  if (record) return <RecordHead record={record} />;
  const demo = session?.session.demo ?? surrounding.demo;
  const title = session ? session.session.trace.title || t("Untitled session") : t("New session");
  return (
    <header class="bar">
      <h1 title={title} dir="auto">{title}</h1>
      {session && (
        <IconButton icon="edit" label={t("Rename session")} class="symbol rename" message={{ type: "command", command: "renameSession" }} />
      )}
      {demo && (
        <span class="demo" title={t("A scripted model answers. Set a key or a model to use a real one.")}>
          {t("DEMO")}
        </span>
      )}
    </header>
  );
}

/** The connection's problem, with buttons to fix it. */
function Connection({ connection }: { connection: Surrounding["connection"] }): JSX.Element | null {
  const { phase, text, actions } = connection;
  if (phase === "connected" || phase === "idle" || !text) return null;
  const calm = phase === "starting" || phase === "installing" || phase === "reconnecting";
  return (
    <div class={calm ? "connection calm" : "connection"} role={calm ? "status" : "alert"}>
      <p class={calm ? "shimmer" : ""}>{text}</p>
      {actions.length > 0 && (
        <div class="buttons">
          {actions.map(({ id, label }, index) => (
            <TextButton key={id} label={label} class={index === 0 && !calm ? "primary" : ""} message={{ type: "action", id }} />
          ))}
        </div>
      )}
    </div>
  );
}

function RecordHead({ record }: { record: SessionState }): JSX.Element {
  const { traceId, title } = record.session.trace;
  const name = askerName(traceId.split(":")[1] ?? "");
  return (
    <header class="bar">
      <IconButton icon="back" label={t("Back to the session")} message={{ type: "closeRecord" }} />
      <h1 title={title} dir="auto">{visibleLine([name, title].filter(Boolean).join(" · "))}</h1>
    </header>
  );
}

function RecordBar({ record }: { record: SessionState }): JSX.Element {
  const live = record.session.status !== "idle";
  return (
    <div class="record" role="status">
      <Icon name={live ? "running" : "plan"} />
      <span>
        {`${live ? t("Live, read-only.") : t("Read-only transcript.")} `}
        <TextButton label={t("Back to the session")} class="quiet" message={{ type: "closeRecord" }} />
      </span>
    </div>
  );
}
