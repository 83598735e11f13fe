import type { ComponentChildren, JSX } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { memo } from "./hooks";
import { renderBlocks } from "./markdown";
import { styled, whenMath } from "./math";

const Block = memo(({ html }: { html: string }): JSX.Element => {
  const box = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => styled(box.current), [html]);
  return <div class="block" ref={box} dangerouslySetInnerHTML={{ __html: html }} />;
});

/** Return a translated text with elements in place of `{0}`, `{1}` … */
export function filled(text: string, ...elements: ComponentChildren[]): ComponentChildren[] {
  return text.split(/\{(\d+)\}/).map((part, index) => (index % 2 === 0 ? part : elements[Number(part)]));
}

/** Render Markdown. Unchanged blocks of streaming text keep their elements on the page, and so the user's selection. */
export const Markdown = memo(({ text }: { text: string }): JSX.Element => {
  const [, again] = useState(0);
  useEffect(() => whenMath(() => again((n) => n + 1)), []);
  return (
    <div class="markdown">
      {renderBlocks(text).map((html, index) => (
        <Block key={index} html={html} />
      ))}
    </div>
  );
});
