// Made by scripts/generate_settings.py from daemon/settings.py; do not edit.

/** Settings of VS Code, and their names in config.json. */
export const SETTINGS: Readonly<Record<string, string>> = {
  model: "model",
  fallbackModel: "fallback_model",
  models: "models",
  thinkingTokens: "thinking_tokens",
  maxTokens: "max_tokens",
  mode: "mode",
  permission: "permission",
  permissionTimeoutSeconds: "permission_timeout_s",
  sandbox: "sandbox",
  sandboxNetwork: "sandbox_network",
  sandboxWritable: "sandbox_writable",
  testCommand: "test_command",
  testTimeoutSeconds: "test_timeout_s",
  hooks: "hooks",
  planner: "planner",
  planFront: "plan_front",
  planPlacement: "plan_placement",
  allowReplan: "allow_replan",
  compactAtTokens: "compact_at_tokens",
  keepSteps: "keep_steps",
  contextWindow: "context_window",
  diagnosticsSeverity: "diagnostics_severity",
  budgetWarningUsd: "budget_warning_usd",
  budgetUsd: "budget_usd",
  budgetTokens: "budget_tokens",
  goalBudgetUsd: "goal_budget_usd",
  goalBudgetTokens: "goal_budget_tokens",
  maxParallel: "max_parallel",
  maxDepth: "max_depth",
  exploreChoice: "explore_choice",
  branchLinks: "branch_links",
  successTarget: "success_target",
  maxIterations: "max_iterations",
  debugTrace: "debug_trace",
};

/** Of these, the ones that are on or off. */
export const SWITCHES: ReadonlySet<string> = new Set(["sandbox_network", "allow_replan", "debug_trace"]);
