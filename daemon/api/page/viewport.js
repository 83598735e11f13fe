// The visible part of a large plane, moved by pointer, wheel and pinch.

const NEAREST = 2;
/** Titles of goals are still readable at this scale. */
const FARTHEST = 0.5;
/** Margin around fitted content, in pixels. */
const EDGE = 20;

export class Viewport {
  /**
   * @param {HTMLElement} host
   * @param {() => void} changed
   */
  constructor(host, changed) {
    this.host = host;
    this.changed = changed;
    /** Position of the plane's origin in the host, in pixels, and pixels per unit of the plane. */
    this.x = 0;
    this.y = 0;
    this.scale = 1;
    /** Whether the user has moved the plane. */
    this.touched = false;
    /** @type {Map<number, { x: number, y: number }>} */
    this.pointers = new Map();
    /** Whether the pointer was dragged; a drag is no click. */
    this.dragged = false;
    this.leaving = new AbortController();
    const { signal } = this.leaving;
    host.addEventListener("wheel", (event) => this.wheel(event), { passive: false, signal });
    host.addEventListener("pointerdown", (event) => this.down(event), { signal });
    host.addEventListener("pointermove", (event) => this.move(event), { signal });
    for (const name of /** @type {const} */ (["pointerup", "pointercancel"])) {
      host.addEventListener(name, (event) => this.up(event), { signal });
    }
    // A drag that ends on an element must not click it.
    host.addEventListener("click", (event) => {
      if (this.dragged) event.stopPropagation();
    }, { capture: true, signal });
  }

  dispose() {
    this.leaving.abort();
  }

  /**
   * Fits content at the plane's origin into the host: centred, never enlarged. If that needs a scale below `least`, shows
   * its beginning, in full width if possible.
   * @param {{ width: number, height: number }} thing
   * @param {number} least
   * @returns {boolean} whether all of it is visible
   */
  fit({ width, height }, least) {
    const [wide, high] = [this.host.clientWidth, this.host.clientHeight];
    const whole = Math.min((wide - 2 * EDGE) / width, (high - 2 * EDGE) / height);
    const across = (wide - 2 * EDGE) / width;
    this.scale = Math.min(1, Math.max(whole, FARTHEST, whole < least ? across : 0));
    const place = (/** @type {number} */ room, /** @type {number} */ size) => Math.max(EDGE, (room - size * this.scale) / 2);
    this.x = place(wide, width);
    this.y = place(high, height);
    this.changed();
    return whole >= this.scale || whole >= 1;
  }

  /**
   * Moves the plane by the least distance after which no content is hidden on one side while there is room on the other.
   * @param {{ width: number, height: number }} thing
   */
  settle({ width, height }) {
    const place = (/** @type {number} */ at, /** @type {number} */ room, /** @type {number} */ size) => {
      const last = room - size * this.scale - EDGE;
      return Math.min(Math.max(at, Math.min(EDGE, last)), Math.max(EDGE, last));
    };
    const [x, y] = [place(this.x, this.host.clientWidth, width), place(this.y, this.host.clientHeight, height)];
    if (x !== this.x || y !== this.y) this.pan(x - this.x, y - this.y);
  }

  /** Returns the visible part of the plane with a margin. @param {number} [room] pixels */
  seen(room = 0) {
    const { clientWidth: width, clientHeight: height } = this.host;
    return {
      left: (-this.x - room) / this.scale,
      top: (-this.y - room) / this.scale,
      right: (width - this.x + room) / this.scale,
      bottom: (height - this.y + room) / this.scale,
    };
  }

  /**
   * @param {number} scale
   * @param {number} x point of the host under which the plane stays in place
   * @param {number} y
   */
  zoomAt(scale, x, y) {
    const next = Math.min(NEAREST, Math.max(FARTHEST, scale));
    this.x = x - ((x - this.x) * next) / this.scale;
    this.y = y - ((y - this.y) * next) / this.scale;
    this.scale = next;
    this.changed();
  }

  /**
   * @param {number} dx
   * @param {number} dy
   */
  pan(dx, dy) {
    this.x += dx;
    this.y += dy;
    this.changed();
  }

  /** @param {WheelEvent} event */
  wheel(event) {
    event.preventDefault();
    this.touched = true;
    const unit = event.deltaMode === WheelEvent.DOM_DELTA_LINE ? 16 : 1;
    if (event.ctrlKey || event.metaKey) {
      const { left, top } = this.host.getBoundingClientRect();
      this.zoomAt(this.scale * Math.exp(-event.deltaY * unit * 0.004), event.clientX - left, event.clientY - top);
    } else if (event.shiftKey && event.deltaX === 0) this.pan(-event.deltaY * unit, 0);
    else this.pan(-event.deltaX * unit, -event.deltaY * unit);
  }

  /** @param {PointerEvent} event */
  down(event) {
    if (event.button !== 0) return;
    if (this.pointers.size === 0) this.dragged = false;
    this.pointers.set(event.pointerId, { x: event.clientX, y: event.clientY });
  }

  /** @param {PointerEvent} event */
  move(event) {
    const before = this.pointers.get(event.pointerId);
    if (!before) return;
    const [dx, dy] = [event.clientX - before.x, event.clientY - before.y];
    // A hand is not perfectly still when it clicks.
    if (!this.dragged && Math.hypot(dx, dy) < 4) return;
    if (!this.dragged) this.host.setPointerCapture(event.pointerId);
    this.dragged = this.touched = true;
    const other = [...this.pointers].find(([id]) => id !== event.pointerId)?.[1];
    this.pointers.set(event.pointerId, { x: event.clientX, y: event.clientY });
    if (!other) {
      this.pan(dx, dy);
      return;
    }
    const { left, top } = this.host.getBoundingClientRect();
    const was = Math.hypot(before.x - other.x, before.y - other.y) || 1;
    const is = Math.hypot(event.clientX - other.x, event.clientY - other.y) || 1;
    this.pan(dx / 2, dy / 2);
    this.zoomAt((this.scale * is) / was, (event.clientX + other.x) / 2 - left, (event.clientY + other.y) / 2 - top);
  }

  /** @param {PointerEvent} event */
  up(event) {
    this.pointers.delete(event.pointerId);
  }
}
