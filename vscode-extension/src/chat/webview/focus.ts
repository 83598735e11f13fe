import type { RefObject } from "preact";
import { useEffect } from "preact/hooks";

/** Parts of the page that keep the focus while they exist, inner ones first. */
const PLACES = ".approval, .queue, .plan-tree, .plan, .meter, .attachments, .exploration, .tool";
const FOCUSABLE = 'button:not(:disabled, [tabindex="-1"]), input:not(:disabled), textarea:not(:disabled), [tabindex="0"]';

/**
 * Keep the keyboard focus on the page. When the focused element goes away (an answered card, a used-up button), focus
 * what replaced it, or else `field`, where the user types.
 */
export function useKeptFocus(field: RefObject<HTMLElement | null>): void {
  useEffect(() => {
    let last: Element | null = null;
    let places: Element[] = [];
    const onFocus = ({ target }: FocusEvent): void => {
      last = target instanceof Element && target !== document.body ? target : null;
      places = [];
      for (let place = last?.parentElement?.closest(PLACES); place; place = place.parentElement?.closest(PLACES)) places.push(place);
    };
    const onBlur = ({ target, relatedTarget }: FocusEvent): void => {
      if (relatedTarget !== null || target !== last) return;
      // The blur event of an element that is being removed comes while it still exists.
      queueMicrotask(() => {
        // A click on an empty area removed nothing, so there is no focus to restore.
        if (target === last && last?.isConnected && !last.matches(":disabled") && document.hasFocus()) last = null;
      });
    };
    let pointed = false;
    const onPointer = ({ type }: PointerEvent): void => void (pointed = type === "pointerdown");
    // VS Code can focus the page without focusing an element, e.g. by its command for the view or when a list closes.
    // Then focus the last element, or the field.
    const onWindowFocus = (): void => {
      if (pointed) return;
      queueMicrotask(() => {
        if (last) look();
        else if (document.activeElement === document.body) field.current?.focus({ preventScroll: true });
      });
    };
    const look = (): void => {
      if (!last || document.activeElement !== document.body || !document.hasFocus()) return;
      if (last.isConnected && !last.matches(":disabled")) {
        (last as HTMLElement).focus();
        return;
      }
      // The button is disabled only until the answer has a result.
      if (last.isConnected) return;
      (placeFor(last, places) ?? field.current ?? document.querySelector<HTMLElement>(FOCUSABLE))?.focus();
    };
    const observer = new MutationObserver(look);
    observer.observe(document.body, { childList: true, subtree: true, attributes: true, attributeFilter: ["disabled"] });
    const ended = new AbortController();
    const { signal } = ended;
    document.addEventListener("focusin", onFocus, { signal });
    document.addEventListener("focusout", onBlur, { signal });
    window.addEventListener("focus", onWindowFocus, { signal });
    for (const type of ["pointerdown", "pointerup", "pointercancel"] as const) window.addEventListener(type, onPointer, { capture: true, signal });
    return () => {
      observer.disconnect();
      ended.abort();
    };
  }, [field]);
}

/** Return what to focus next. The next request gets the focus as a whole, so that no key answers it before the user has read it. */
function placeFor(gone: Element, places: readonly Element[]): HTMLElement | null {
  if (places.some((place) => place.matches(".approval"))) {
    const card = places.find((place) => place.isConnected && place.matches(".approval")) ?? document.querySelector(".approval");
    if (card) return card as HTMLElement;
  }
  const place = places.find((one) => one.isConnected);
  if (!place) return null;
  const label = gone.getAttribute("aria-label");
  const same = label === null ? null : place.querySelector<HTMLElement>(`[aria-label="${CSS.escape(label)}"]:not(:disabled)`);
  return same ?? place.querySelector<HTMLElement>(FOCUSABLE);
}
