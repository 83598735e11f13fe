import type { RefObject } from "preact";
import { useCallback, useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";

/** Nearer to the end than this counts as being at the end. */
const NEAR = 32;

export interface Scroll {
  /** The reader is at the end: new text keeps the view there. */
  following: { current: boolean };
  atEnd: boolean;
  toEnd: () => void;
  /** Before lines are put in front: keeps what the reader sees where it is. */
  hold: () => void;
}

/** Follows the end of `box` while the reader is there, and never moves it otherwise. `step` grows with each drawing. */
export function useScroll(box: RefObject<HTMLDivElement | null>, content: RefObject<HTMLDivElement | null>, onTop: () => void): Scroll {
  const following = useRef(true);
  const held = useRef<{ element: Element; top: number } | null>(null);
  const [atEnd, setAtEnd] = useState(true);

  const toEnd = useCallback(() => {
    following.current = true;
    setAtEnd(true);
    const element = box.current;
    if (element) element.scrollTop = element.scrollHeight;
  }, [box]);

  const hold = useCallback(() => {
    const first = content.current?.querySelector(".line");
    held.current = first ? { element: first, top: first.getBoundingClientRect().top } : null;
  }, [content]);

  useLayoutEffect(() => {
    const element = box.current;
    if (!element) return;
    if (held.current?.element.isConnected) {
      element.scrollTop += held.current.element.getBoundingClientRect().top - held.current.top;
    }
    held.current = null;
  });

  useEffect(() => {
    const [element, inner] = [box.current, content.current];
    if (!element || !inner) return undefined;
    const onScroll = (): void => {
      const near = element.scrollHeight - element.scrollTop - element.clientHeight < NEAR;
      following.current = near;
      setAtEnd(near);
      if (element.scrollTop < 200) onTop();
    };
    // Unfolding something is reading: the view stays with it, even at the end.
    const onClick = (event: Event): void => {
      if ((event.target as Element).closest("[aria-expanded]")) following.current = false;
    };
    const observer = new ResizeObserver(() => {
      if (following.current) element.scrollTop = element.scrollHeight;
      else onScroll();
    });
    observer.observe(inner);
    observer.observe(element);
    element.addEventListener("scroll", onScroll, { passive: true });
    inner.addEventListener("click", onClick, { capture: true });
    return () => {
      observer.disconnect();
      element.removeEventListener("scroll", onScroll);
      inner.removeEventListener("click", onClick, { capture: true });
    };
  }, [box, content, onTop]);

  return { following, atEnd, toEnd, hold };
}
