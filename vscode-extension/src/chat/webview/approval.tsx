import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { acceptLabel, ALL, isEmpty, type Choice } from "../../diff/choice";
import type { PermissionRequest, Reply } from "../../protocol.gen";
import { isBudget } from "../../meter/model";
import type { Choices } from "../messages";
import { post } from "./host";
import { Icon } from "./icons";
import { ProposedFile } from "./proposed";
import { visible, visibleLine } from "./visible";

/** After this time the buttons work again, should an answer have got lost. */
const PATIENCE_MS = 5_000;

interface ApprovalProps {
  requests: readonly PermissionRequest[];
  choices: Choices;
  keys: { accept: string; reject: string };
}

/** The oldest open request, docked above the composer where it cannot be missed. */
export function Approval({ requests, choices, keys }: ApprovalProps): JSX.Element | null {
  const [request] = requests;
  if (!request) return null;
  const choice = choices[request.requestId] ?? ALL;
  if (isBudget(request)) return <BudgetCard key={request.requestId} request={request} choice={choice} count={requests.length} keys={keys} />;
  return <Card key={request.requestId} request={request} choice={choice} count={requests.length} keys={keys} />;
}

type Mode = "plain" | "always" | "feedback";

interface CardProps {
  request: PermissionRequest;
  choice: Choice;
  count: number;
  keys: { accept: string; reject: string };
}

/** Sends the answer once; the buttons wait for what comes of it. */
function useReply({ requestId }: PermissionRequest, { error }: Choice): [boolean, (answer: Reply, feedback?: string) => void] {
  const [sent, setSent] = useState(false);
  useEffect(() => {
    const timer = sent ? setTimeout(() => setSent(false), PATIENCE_MS) : undefined;
    return () => clearTimeout(timer);
  }, [sent]);
  useEffect(() => {
    if (error) setSent(false);
  }, [error]);
  const reply = (answer: Reply, feedback?: string): void => {
    setSent(true);
    post({ type: "reply", requestId, reply: answer, ...(feedback ? { feedback } : {}) });
  };
  return [sent, reply];
}

/** A run that has used its budget: nothing is to be written, so the answers are other ones. */
function BudgetCard({ request, choice, count, keys }: CardProps): JSX.Element {
  const [sent, reply] = useReply(request, choice);
  return (
    <section class="approval" role="region" aria-label="Budget reached">
      <Head request={request} count={count} />
      <div class="approval-body">
        <p class="rule">Continuing gives the same amount again. Stopping ends the turn here; everything is kept.</p>
      </div>
      <Refused error={choice.error} />
      <div class="buttons">
        <button type="button" class="primary" disabled={sent} title={`Continue (${keys.accept})`} onClick={() => reply("once")}>
          Continue
        </button>
        <button type="button" disabled={sent} onClick={() => reply("always")}>
          No more limit in this session
        </button>
        <button type="button" disabled={sent} title={`Stop here (${keys.reject})`} onClick={() => reply("reject")}>
          Stop here
        </button>
      </div>
    </section>
  );
}

function Head({ request, count }: Pick<CardProps, "request" | "count">): JSX.Element {
  return (
    <header>
      <Icon name="waiting" />
      <h2>{visibleLine(request.title)}</h2>
      {count > 1 && <span class="dim">{`1 of ${count}`}</span>}
    </header>
  );
}

function Refused({ error }: { error: string }): JSX.Element | null {
  if (!error) return null;
  return (
    <p class="refused" role="alert">
      <Icon name="warning" />
      <span>{visible(error)}</span>
    </p>
  );
}

function Card({ request, choice, count, keys }: CardProps): JSX.Element {
  const [mode, setMode] = useState<Mode>("plain");
  const [sent, reply] = useReply(request, choice);
  // With a diff to look at, the detail is a remark; without one it is what would be done.
  const command = request.files.length === 0 || request.detail.includes("\n") ? request.detail : "";
  const empty = isEmpty(request.files, choice);
  const flip = (to: Mode) => (): void => setMode(mode === to ? "plain" : to);
  return (
    <section class="approval" role="region" aria-label="Approval needed">
      <Head request={request} count={count} />
      <div class="approval-body">
        {command && <pre class="io">{visible(command)}</pre>}
        {request.files.map((file) => (
          <ProposedFile key={file.path} request={request} file={file} choice={choice} />
        ))}
        <p class="rule">{[command ? "" : visible(request.detail), reason(request)].filter(Boolean).join(" · ")}</p>
      </div>
      <Refused error={choice.error} />
      {mode === "always" && <Patterns request={request} disabled={sent || empty} accept={() => reply("always")} />}
      {mode === "feedback" && <Feedback disabled={sent} send={(text) => reply("reject", text)} />}
      <div class="buttons">
        <button
          type="button"
          class="primary"
          disabled={sent || empty}
          title={empty ? "Nothing is chosen; Reject is for that" : `Accept (${keys.accept})`}
          onClick={() => reply("once")}
        >
          {acceptLabel(request.files, choice)}
        </button>
        {request.suggestions.length > 0 && (
          <button type="button" disabled={sent} aria-expanded={mode === "always"} onClick={flip("always")}>
            Always…
          </button>
        )}
        <button type="button" disabled={sent} title={`Reject (${keys.reject})`} onClick={() => reply("reject")}>
          Reject
        </button>
        <button type="button" disabled={sent} aria-expanded={mode === "feedback"} onClick={flip("feedback")}>
          Reject with feedback
        </button>
        {request.files.length > 0 && (
          <button
            type="button"
            class="quiet"
            onClick={() => post({ type: "openDiff", requestId: request.requestId })}
          >
            Open diff
          </button>
        )}
      </div>
    </section>
  );
}

/** Which rule made this a question, in words. */
function reason({ rule }: PermissionRequest): string {
  const whose = {
    shipped: "the built-in rule",
    user: "your own rule",
    workspace: "this folder's rule",
    editor: "your VS Code setting",
    session: "this session's rule",
    agent: "the agent's rule",
  }[rule.source];
  return visibleLine(`asked because of ${whose} ${rule.permission}: ${rule.pattern} → ${rule.action}`);
}

function Patterns({ request, disabled, accept }: { request: PermissionRequest; disabled: boolean; accept: () => void }): JSX.Element {
  return (
    <div class="extra">
      <p>For the rest of this session, do not ask again for:</p>
      <ul class="patterns" aria-label="Patterns to remember">
        {request.suggestions.map((pattern) => (
          <li key={pattern}>
            <code>{visibleLine(`${request.permission}: ${pattern}`)}</code>
          </li>
        ))}
      </ul>
      <button type="button" class="primary" disabled={disabled} onClick={accept}>
        Accept and remember
      </button>
    </div>
  );
}

function Feedback({ disabled, send }: { disabled: boolean; send: (text: string) => void }): JSX.Element {
  const [text, setText] = useState("");
  const field = useRef<HTMLTextAreaElement>(null);
  useEffect(() => field.current?.focus(), []);
  const ready = text.trim() !== "" && !disabled;
  return (
    <div class="extra">
      <textarea
        ref={field}
        rows={2}
        aria-label="Feedback"
        placeholder="What should Goalwright do instead? It goes on with your answer."
        value={text}
        onInput={(event) => setText(event.currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
          event.preventDefault();
          if (ready) send(text);
        }}
      />
      <button type="button" class="primary" disabled={!ready} onClick={() => send(text)}>
        Send feedback
      </button>
    </div>
  );
}
