/** Markdown of the model as HTML. Raw HTML stays text, links go through the host, images are not loaded. */
import MarkdownIt, { type MarkdownIt as Markdown } from "markdown-it";
import { target } from "../links";
import { highlight } from "./highlight";
import { t } from "../../l10n";

const KNOWN_FILE =
  /^(?:[\w.@~-]+\/)*[\w.@-]*\.(?:py|pyi|ts|tsx|js|jsx|mjs|cjs|json|jsonc|md|toml|yaml|yml|ini|cfg|txt|rst|html|css|scss|sh|go|rs|java|kt|c|h|cc|cpp|hpp|cs|rb|php|sql|lock|xml|vue|svelte|ipynb)(?::\d+(?::\d+)?)?$/i;

/** A file with a line in plain text, such as `src/a.py:16`. */
const FILE_LINE = /((?<![\w/.@~-])(?:[\w.@~-]+\/)*[\w.@-]+\.\w+:\d+(?::\d+)?(?![\w:]))/;

const markdown = create();

/** One HTML string for each top-level block, so that a growing text changes only its last ones on the page. */
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
  // Fuzzy links would make a web address of every `setup.py` (.py is a country).
  md.linkify.set({ fuzzyLink: false, fuzzyEmail: false, fuzzyIP: false });
  md.validateLink = (url) => target(url).kind !== "none";
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
    // Boxes of a task list.
    const task = index === 0 ? content.replace(/^\[ \] /, "☐ ").replace(/^\[[xX]\] /, "☑ ") : content;
    if (tokens[index - 1]?.type === "link_open") return escape(task);
    return task
      .split(FILE_LINE)
      .map((piece, at) => (at % 2 === 1 && KNOWN_FILE.test(piece) ? `${anchor(piece)}${escape(piece)}</a>` : escape(piece)))
      .join("");
  };
  rules["code_inline"] = (tokens, index) => {
    const content = tokens[index]?.content ?? "";
    const code = `<code>${escape(content)}</code>`;
    return KNOWN_FILE.test(content) ? `${anchor(content)}${code}</a>` : code;
  };
  rules["fence"] = (tokens, index) => {
    const token = tokens[index];
    return codeBlock(token?.content ?? "", token?.info.trim().split(/\s+/, 1)[0] ?? "");
  };
  rules["code_block"] = (tokens, index) => codeBlock(tokens[index]?.content ?? "", "");
  rules["table_open"] = () => `<div class="table" tabindex="0" role="group" aria-label="${escape(t("Table"))}"><table>`;
  rules["table_close"] = () => "</table></div>";
  for (const cell of ["th", "td"]) {
    // The policy of the page forbids style attributes, which is how markdown-it aligns.
    rules[`${cell}_open`] = (tokens, index) => {
      const align = /text-align:(\w+)/.exec(String(tokens[index]?.attrGet("style") ?? ""))?.[1];
      return align ? `<${cell} class="${align}">` : `<${cell}>`;
    };
  }
  // The session's title is the page's first heading: those of an answer come below it.
  const level = (tag: string): string => `h${Math.min(6, Number(tag.slice(1)) + 2)}`;
  rules["heading_open"] = (tokens, index) => `<${level(tokens[index]?.tag ?? "h1")} class="${tokens[index]?.tag}">`;
  rules["heading_close"] = (tokens, index) => `</${level(tokens[index]?.tag ?? "h1")}>`;
  return md;

  /** The real address is no `href`: the page leads nowhere by itself, the host decides. */
  function anchor(href: string): string {
    return `<a href="#" class="link" data-href="${escape(href)}" title="${escape(href)}">`;
  }

  function codeBlock(content: string, language: string): string {
    const code = content.replace(/\n$/, "");
    return (
      `<div class="code"><div class="code-bar"><span>${escape(language)}</span>` +
      `<button type="button" class="quiet" data-copy aria-label="${escape(t("Copy code"))}">${escape(t("Copy"))}</button></div>` +
      `<pre tabindex="0"><code>${highlight(code, language) ?? escape(code)}</code></pre></div>`
    );
  }
}
