import type { RefObject } from "preact";
import { useCallback, useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";

/** Distance from the end, in pixels, that counts as being at the end. */
const NEAR = 32;

export interface Measure {
  top: number;
  client: number;
  height: number;
}

/**
 * Return true when the reader scrolled up. The browser also scrolls when the box grows or its content shrinks, and that
 * event may arrive after further lines.
 */
export function scrolledUp(before: Measure, now: Measure): boolean {
  return now.top < before.top - 1 && now.client === before.client && now.height >= before.height;
}

/** Follow the end of `box` while the reader is there, and never scroll otherwise. */
export function useScroll(box: RefObject<HTMLDivElement | null>, content: RefObject<HTMLDivElement | null>, onTop: () => void) {
  /** True while the reader is at the end, so that new text scrolls the view. */
  const following = useRef(true);
  const held = useRef<{ element: Element; top: number } | null>(null);
  const [atEnd, setAtEnd] = useState(true);

  const toEnd = useCallback(() => {
    following.current = true;
    setAtEnd(true);
    const element = box.current;
    if (element) element.scrollTop = element.scrollHeight;
  }, [box]);

  /** Keep the visible lines in place; call it before lines are added in front. */
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
    // Expanding something means reading it, so stop following the end.
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
