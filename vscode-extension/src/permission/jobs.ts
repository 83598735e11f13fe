import * as vscode from "vscode";
import { openFile } from "../chat/open";
import type { Daemon } from "../daemon/daemon";
import { button, type ListButton, type ListRow, liveList } from "../live_list";
import type { JobInfo } from "../protocol.gen";
import type { SessionController } from "../session/controller";
import { jobRow } from "./format";
import { t } from "../l10n";

/** List the session's background commands, to open their output or to stop them. Throws the daemon's error. */
export async function showJobs(daemon: Daemon, sessions: SessionController): Promise<void> {
  const rows = async (): Promise<ListRow[]> => {
    const { sessionId } = sessions;
    const { jobs } = await daemon.request("goalwright/job/list", sessionId ? { sessionId } : {});
    if (jobs.length === 0) return [{ label: t("No command runs in the background.") }];
    return jobs.toReversed().map((job) => {
      const stop = button("debug-stop", t("Stop"), { stay: () => daemon.request("goalwright/job/kill", { sessionId: job.sessionId, jobId: job.jobId }).then(rows) });
      return rowOf(job, job.exitCode === null ? [stop] : []);
    });
  };
  await liveList({ title: t("Background Jobs"), placeholder: t("Enter opens the output"), matchOnDescription: true }, rows);
}

function rowOf(job: JobInfo, buttons: ListButton[]): ListRow {
  const { exitCode, outputFile } = job;
  const icon = exitCode === null ? "loading~spin" : exitCode === 0 ? "pass" : "error";
  const row = { ...jobRow(job, Date.now()), iconPath: new vscode.ThemeIcon(icon), buttons };
  if (!outputFile) return row;
  const enter = (): Promise<void> => openFile(outputFile);
  return { ...row, buttons: [...buttons, button("output", t("Open its output"), { leave: enter })], enter };
}
