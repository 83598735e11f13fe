// The code of the extension that model_extension.py packs.
const vscode = require("vscode");
const fs = require("node:fs");
const path = require("node:path");

const MORE = "more-models";
const url = process.env.MODEL_OFFERER_URL;
const text = (part) => (part instanceof vscode.LanguageModelTextPart ? part.value : "");

function toWire(messages) {
  return messages.flatMap(({ role, content }) => {
    const results = content.filter((part) => part instanceof vscode.LanguageModelToolResultPart);
    const calls = content.filter((part) => part instanceof vscode.LanguageModelToolCallPart);
    const images = content.filter((part) => part instanceof vscode.LanguageModelDataPart);
    const said = content.map(text).join("");
    const image = (part) => ({ type: "image_url", image_url: { url: `${part.mimeType};${part.data.length}` } });
    const assistant = role === vscode.LanguageModelChatMessageRole.Assistant;
    const tool = ({ callId, name, input }) => ({ id: callId, type: "function", function: { name, arguments: JSON.stringify(input) } });
    const whole = images.length ? [...images.map(image), { type: "text", text: said }] : said;
    return [
      ...results.map(({ callId, content }) => ({ role: "tool", tool_call_id: callId, content: content.map(text).join("") })),
      ...(said || calls.length || images.length
        ? [{ role: assistant ? "assistant" : "user", content: whole, ...(calls.length ? { tool_calls: calls.map(tool) } : {}) }]
        : []),
    ];
  });
}

async function respond(model, messages, options, progress, token) {
  const ended = new AbortController();
  token.onCancellationRequested(() => ended.abort());
  const tools = (options.tools ?? []).map(({ name, description, inputSchema }) => ({ type: "function", function: { name, description, parameters: inputSchema } }));
  const answer = await fetch(`${url}/chat/completions`, {
    method: "POST",
    signal: ended.signal,
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ model: model.id, stream: true, messages: toWire(messages), ...(tools.length ? { tools } : {}) }),
  });
  if (!answer.ok) {
    const { error } = await answer.json();
    if (answer.status === 429) throw vscode.LanguageModelError.Blocked(error.message);
    throw new Error(`Request Failed: ${answer.status} ${error.message}`);
  }
  const calls = [];
  let rest = "";
  for await (const piece of answer.body.pipeThrough(new TextDecoderStream())) {
    const lines = (rest + piece).split("\n");
    rest = lines.pop();
    for (const line of lines) {
      if (!line.startsWith("data: {")) continue;
      const delta = JSON.parse(line.slice(6)).choices[0]?.delta ?? {};
      if (delta.content) progress.report(new vscode.LanguageModelTextPart(delta.content));
      for (const { index, id, function: called } of delta.tool_calls ?? []) {
        calls[index] ??= { id, name: called.name, input: "" };
        calls[index].input += called.arguments ?? "";
      }
    }
  }
  for (const { id, name, input } of calls) progress.report(new vscode.LanguageModelToolCallPart(id, name, JSON.parse(input)));
}

exports.activate = (context) => {
  const changed = new vscode.EventEmitter();
  const beside = path.dirname(vscode.workspace.workspaceFolders[0].uri.fsPath);
  const watcher = fs.watch(beside, (_, name) => name === MORE && changed.fire());
  const offer = (id, name, more = {}) => ({
    id, name, family: "tests", version: "1", maxInputTokens: 96_000, maxOutputTokens: 4_000,
    capabilities: { toolCalling: true, imageInput: true }, ...more,
  });
  const provider = (offered) => ({
    onDidChangeLanguageModelChatInformation: changed.event,
    provideLanguageModelChatInformation: offered,
    provideLanguageModelChatResponse: respond,
    provideTokenCount: async (_, given) => (typeof given === "string" ? given.length : 1),
  });
  const own = () => [
    offer("one", "Model One"),
    offer("chat-only", "No Tools", { capabilities: {} }),
    ...(fs.existsSync(path.join(beside, MORE)) ? [offer("three", "Model Three", { maxInputTokens: 1_000_000 })] : []),
  ];
  context.subscriptions.push(
    { dispose: () => watcher.close() },
    vscode.lm.registerLanguageModelChatProvider("tests", provider(own)),
    vscode.lm.registerLanguageModelChatProvider("private", provider(() => [offer("two", "Model Two", { requiresAuthorization: true })])),
  );
};
