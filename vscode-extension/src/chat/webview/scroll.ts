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

export interface Measure {
  top: number;
  client: number;
  height: number;
}

/**
 * It was the reader who moved the view up. When the box grew or its content shrank, the browser moves it by itself, and
 * the event of that may come after the next lines have.
 */
export function scrolledUp(before: Measure, now: Measure): boolean {
  return now.top < before.top - 1 && now.client === before.client && now.height >= before.height;
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
    const measure = (): Measure => ({
      top: element.scrollTop,
      client: element.clientHeight,
      height: element.scrollHeight,
    });
    let last = measure();
    const onScroll = (): void => {
      const now = measure();
      const near = now.height - now.top - now.client < NEAR;
      if (near) following.current = true;
      else if (scrolledUp(last, now)) following.current = false;
      last = now;
      setAtEnd(near || following.current);
      if (now.top < 200) onTop();
    };
    // Unfolding something is reading: the view stays with it, even at the end.
    const onClick = (event: Event): void => {
      if ((event.target as Element).closest("[aria-expanded]")) following.current = false;
    };
    const observer = new ResizeObserver(() => {
      if (following.current) element.scrollTop = element.scrollHeight;
      last = measure();
      setAtEnd(following.current || last.height - last.top - last.client < NEAR);
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
