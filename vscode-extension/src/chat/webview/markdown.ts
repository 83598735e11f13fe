/** Convert the model's Markdown to HTML. Raw HTML stays text, links go through the host, images are not loaded. */
import MarkdownIt, { type MarkdownIt as Markdown } from "markdown-it";
import { target } from "../links";
import { highlight } from "./highlight";
import { drawn } from "./icons";
import { withMath } from "./math";
import { t } from "../../l10n";

const KNOWN_FILE =
  /^(?:[\w.@~-]+\/)*[\w.@-]*\.(?:py|pyi|ts|tsx|js|jsx|mjs|cjs|json|jsonc|md|toml|yaml|yml|ini|cfg|txt|rst|html|css|scss|sh|go|rs|java|kt|c|h|cc|cpp|hpp|cs|rb|php|sql|lock|xml|vue|svelte|ipynb)(?::\d+(?::\d+)?)?$/i;

/** A file with a line number in plain text, such as `src/a.py:16`. */
const FILE_LINE = /((?<![\w/.@~-])(?:[\w.@~-]+\/)*[\w.@-]+\.\w+:\d+(?::\d+)?(?![\w:]))/;

const SHELLS = new Set(["bash", "sh", "shell", "zsh", "fish", "console", "shell-session", "shellsession", "powershell", "pwsh", "ps1", "bat", "cmd"]);

const markdown = create();

/** Return one HTML string for each top-level block, so that streaming text changes only the last blocks on the page. */
export function renderBlocks(text: string): string[] {
  const environment = {};
  const tokens = markdown.parse(text, environment);
  const blocks: string[] = [];
  let start = 0;
  let depth = 0;
  tokens.forEach((token, index) => {
    depth += token.nesting;
    if (depth > 0) return;
    blocks.push(markdown.renderer.render(tokens.slice(start, index + 1), markdown.options, environment));
    start = index + 1;
  });
  return blocks;
}

function create(): Markdown {
  const md = new MarkdownIt({ html: false, linkify: true, breaks: false });
  // Fuzzy links would turn every `setup.py` into a web address, because .py is a top-level domain.
  md.linkify.set({ fuzzyLink: false, fuzzyEmail: false, fuzzyIP: false });
  md.validateLink = (url) => target(url).kind !== "none";
  withMath(md);
  md.core.ruler.push("tasks", ({ tokens, Token }) => {
    tokens.forEach((token, index) => {
      const item = tokens[index - 2];
      const [mark, box] = /^\[([ xX])\]\s+/.exec(token.content) ?? [];
      const first = token.children?.[0];
      if (token.type !== "inline" || item?.type !== "list_item_open" || mark === undefined || first?.type !== "text") return;
      item.attrJoin("class", "task-item");
      first.content = first.content.slice(mark.length);
      token.children?.unshift(Object.assign(new Token("task_box", "", 0), { content: box === " " ? "" : "x" }));
    });
  });
  const { rules } = md.renderer;
  const escape = md.utils.escapeHtml;

  rules["link_open"] = (tokens, index) => anchor(String(tokens[index]?.attrGet("href") ?? ""));
  rules["image"] = (tokens, index) => {
    const source = String(tokens[index]?.attrGet("src") ?? "");
    const name = tokens[index]?.content || t("image");
    return `${anchor(source)}${escape(t("[image: {0}]", name))}</a>`;
  };
  rules["text"] = (tokens, index) => {
    const content = tokens[index]?.content ?? "";
    if (tokens[index - 1]?.type === "link_open") return escape(content);
    return content
      .split(FILE_LINE)
      .map((piece, at) => (at % 2 === 1 && KNOWN_FILE.test(piece) ? `${anchor(piece)}${escape(piece)}</a>` : escape(piece)))
      .join("");
  };
  rules["code_inline"] = (tokens, index) => {
    const content = tokens[index]?.content ?? "";
    const code = `<code>${escape(content)}</code>`;
    return KNOWN_FILE.test(content) ? `${anchor(content)}${code}</a>` : code;
  };
  rules["task_box"] = (tokens, index) => {
    const done = tokens[index]?.content === "x";
    return `<span class="task-box" role="img" aria-label="${escape(done ? t("done") : t("open"))}">${done ? drawn("check") : ""}</span>`;
  };
  rules["fence"] = (tokens, index) => {
    const token = tokens[index];
    return codeBlock(token?.content ?? "", token?.info.trim().split(/\s+/, 1)[0] ?? "");
  };
  rules["code_block"] = (tokens, index) => codeBlock(tokens[index]?.content ?? "", "");
  rules["table_open"] = () => `<div class="table" tabindex="0" role="group" aria-label="${escape(t("Table"))}"><table>`;
  rules["table_close"] = () => "</table></div>";
  for (const cell of ["th", "td"]) {
    // The page's policy forbids style attributes, which markdown-it uses to align cells.
    rules[`${cell}_open`] = (tokens, index) => {
      const align = /text-align:(\w+)/.exec(String(tokens[index]?.attrGet("style") ?? ""))?.[1];
      return align ? `<${cell} class="${align}">` : `<${cell}>`;
    };
  }
  // The session's title is the page's first heading, so headings of an answer start two levels below.
  const level = (tag: string): string => `h${Math.min(6, Number(tag.slice(1)) + 2)}`;
  rules["heading_open"] = (tokens, index) => `<${level(tokens[index]?.tag ?? "h1")} class="${tokens[index]?.tag}">`;
  rules["heading_close"] = (tokens, index) => `</${level(tokens[index]?.tag ?? "h1")}>`;
  return md;

  /** Write a link without a real `href`: the page does not navigate, the host decides. */
  function anchor(href: string): string {
    return `<a href="#" class="link" data-href="${escape(href)}" title="${escape(href)}">`;
  }

  function codeBlock(content: string, language: string): string {
    const code = content.replace(/\n$/, "");
    const action = (name: string, icon: "copy" | "insert" | "terminal", label: string): string =>
      `<button type="button" class="symbol" data-code="${name}" aria-label="${escape(label)}" title="${escape(label)}">${drawn(icon)}</button>`;
    return (
      `<div class="code">${language ? `<div class="code-bar">${escape(language)}</div>` : ""}<div class="code-actions">` +
      (SHELLS.has(language.toLowerCase()) ? action("terminal", "terminal", t("Open in Terminal")) : "") +
      action("insertCode", "insert", t("Insert at cursor")) +
      action("copy", "copy", t("Copy code")) +
      `</div><pre tabindex="0"><code>${highlight(code, language) ?? escape(code)}</code></pre></div>`
    );
  }
}
