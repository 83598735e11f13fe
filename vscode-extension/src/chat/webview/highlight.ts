import core from "highlight.js/lib/core";
import bash from "highlight.js/lib/languages/bash";
import c from "highlight.js/lib/languages/c";
import cpp from "highlight.js/lib/languages/cpp";
import csharp from "highlight.js/lib/languages/csharp";
import css from "highlight.js/lib/languages/css";
import diff from "highlight.js/lib/languages/diff";
import go from "highlight.js/lib/languages/go";
import ini from "highlight.js/lib/languages/ini";
import java from "highlight.js/lib/languages/java";
import javascript from "highlight.js/lib/languages/javascript";
import json from "highlight.js/lib/languages/json";
import python from "highlight.js/lib/languages/python";
import rust from "highlight.js/lib/languages/rust";
import sql from "highlight.js/lib/languages/sql";
import typescript from "highlight.js/lib/languages/typescript";
import xml from "highlight.js/lib/languages/xml";
import yaml from "highlight.js/lib/languages/yaml";

const languages = {
  bash, c, cpp, csharp, css, diff, go, ini, java, javascript, json, python, rust, sql, typescript, xml, yaml,
};
for (const [name, language] of Object.entries(languages)) core.registerLanguage(name, language);
core.registerAliases(["shell", "console", "zsh"], { languageName: "bash" });
core.registerAliases(["jsonc"], { languageName: "json" });

/** Longer code is not highlighted: doing that again for every streamed word is too slow. */
const LONGEST = 20_000;

/** Return code as HTML with `hljs-…` classes; undefined for an unknown language. */
export function highlight(code: string, language: string): string | undefined {
  if (!language || code.length > LONGEST || !core.getLanguage(language)) return undefined;
  return core.highlight(code, { language, ignoreIllegals: true }).value;
}
