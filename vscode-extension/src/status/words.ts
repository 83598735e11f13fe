import type { DaemonState } from "../daemon/daemon";
import { requestTitle } from "../explore/words";
import { modeWords } from "../permission/words";
import type { SessionState } from "../session/state";

export interface StatusWords {
  icon: string;
  state: string;
  tooltip: string;
  /** Worth a coloured background. */
  alarm: boolean;
  /** The mode by its name, when it is not the usual one. */
  mode?: string;
  /** The folder Goalwright works in, when the window has several. */
  folder?: string;
}

/** What the status bar says. Pure. */
export function statusWords(daemon: DaemonState, session: SessionState | undefined, folder?: string): StatusWords {
  const known = stateWords(daemon, session);
  const words = folder ? { ...known, folder, tooltip: `${known.tooltip}\nFolder: ${folder}` } : known;
  const mode = session?.session.mode ?? "ask";
  return daemon.phase === "connected" && mode !== "ask" ? { ...words, mode: modeWords(mode).label } : words;
}

function stateWords(daemon: DaemonState, session: SessionState | undefined): StatusWords {
  switch (daemon.phase) {
    case "idle":
      return { icon: "circle-outline", state: "not started", tooltip: "Open the chat to start Goalwright.", alarm: false };
    case "noFolder":
      return { icon: "folder", state: "no folder", tooltip: "Open a folder to let Goalwright work in it.", alarm: false };
    case "starting":
      return { icon: "loading~spin", state: "starting", tooltip: daemon.detail, alarm: false };
    case "reconnecting":
      return { icon: "debug-disconnect", state: "disconnected", tooltip: daemon.detail, alarm: true };
    case "stopped":
      return { icon: "circle-slash", state: "stopped", tooltip: "The daemon was stopped.", alarm: false };
    case "failed":
      if (daemon.problem.code === "notInstalled" || daemon.problem.code === "outdated") {
        return { icon: "cloud-download", state: "not installed", tooltip: daemon.problem.message, alarm: false };
      }
      return { icon: "warning", state: "disconnected", tooltip: daemon.problem.message, alarm: true };
    case "connected": {
      const { status } = daemon;
      const demo = session?.session.demo ?? status.demo;
      const model = session?.session.model ?? status.model;
      const about = demo ? "DEMO: a scripted model answers. " + status.notice : `Model: ${model}`;
      const tooltip = status.sandbox ? `${about}\nCommands: ${status.sandbox}` : about;
      if (session && session.pending.length > 0) {
        return { icon: "bell-dot", state: "needs you", tooltip: session.pending.map(requestTitle).join("\n"), alarm: true };
      }
      if (session && session.children.awaits.length > 0) {
        return { icon: "bell-dot", state: "needs you", tooltip: "Which branch should be used?", alarm: true };
      }
      if (session && session.session.status !== "idle") {
        return { icon: "loading~spin", state: "working", tooltip, alarm: false };
      }
      return demo
        ? { icon: "beaker", state: "demo", tooltip, alarm: false }
        : { icon: "check", state: "idle", tooltip, alarm: false };
    }
  }
}
