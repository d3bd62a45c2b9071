/**
 * Mouse and touch actions on the timeline of a script.
 *
 * A click moves the playback position and selects the line. Dragging a clip moves its line, and dragging a handle
 * changes the silence after a line. A touch scrolls the timeline. It drags a clip only after a long press.
 *
 * The same actions have keys: arrows on the timeline, Alt+↑ and Alt+↓ on a line, and the field for the pause of a line.
 *
 * @typedef {Object} GestureActions
 * @property {(sample: number) => void} seek
 * @property {(id: string) => void} choose            selects the line of a clip
 * @property {(id: string, before: string|null) => void} move  moves a line in front of another line, or to the end
 * @property {(id: string) => number} gapOf           returns the silence after a line in seconds
 * @property {(id: string, seconds: number|null) => void} setGap  sets the silence; null means the script's default
 * @property {(id: string, before: number) => void} onGap  called after a drag with the previous silence in seconds
 */

import { SAMPLE_RATE } from '../common/audio.js';
import { MAX_PAUSE_S } from './line_text.js';

const MIN_DRAG_PX = 5;
const TOUCH_DRAG_DELAY_MS = 300; // Time after which a touch starts a drag. A movement before this time scrolls.
const GRID_S = 0.05;

/** Mouse and touch actions on the timeline of a script. */
export class TimelineGestures {
  /**
   * Handle the pointer events of a timeline from now on.
   *
   * @param {import('./timeline.js').Timeline} timeline @param {GestureActions} actions
   */
  constructor(timeline, actions) {
    this.timeline = timeline;
    this.actions = actions;
    this.isHeld = false;
    this.isDragging = false;
    const { inner } = timeline;
    inner.onpointerdown = (event) => this.grab(event);
    inner.ondblclick = ({ clientX, clientY }) => {
      const id = idAt(document.elementFromPoint(clientX, clientY), 'gap'); // With pointer capture, the target of the event is the captured element.
      if (!id) return;
      const before = actions.gapOf(id);
      actions.setGap(id, null);
      actions.onGap(id, before);
    };
    inner.addEventListener('touchmove', (event) => this.isDragging && event.preventDefault(), { passive: false });
    inner.oncontextmenu = (event) => this.isDragging && event.preventDefault();
  }

  /** Handle a press on the timeline, which may start to drag a clip or a handle. @param {PointerEvent} event */
  grab(event) {
    if (event.button !== 0 || this.isHeld) return;
    const gap = idAt(event.target, 'gap');
    if (gap) this.dragGap(gap, event);
    else this.onPress(idAt(event.target, 'clip'), event);
  }

  /**
   * Handle a press on a clip, which is a click or the start of a drag.
   *
   * @param {string|null} id id of the clip's line
   * @param {PointerEvent} event
   */
  onPress(id, event) {
    const { clientX } = event;
    const start = () => {
      this.isDragging = true;
      if (id) this.timeline.startDrag(id);
    };
    const timer = id && event.pointerType === 'touch' ? setTimeout(start, TOUCH_DRAG_DELAY_MS) : undefined;
    let isScroll = false; // True if the touch moved before the delay had passed. Then it scrolls.
    this.follow(event, {
      move: (moved) => {
        if (!this.isDragging && id && Math.abs(moved.clientX - clientX) > MIN_DRAG_PX) {
          if (timer === undefined) start();
          else isScroll = true;
          clearTimeout(timer);
        }
        if (this.isDragging && id) this.timeline.dragTo(id, moved.clientX - clientX, this.dropTarget(id, moved));
      },
      end: (last) => {
        clearTimeout(timer);
        if (id && this.isDragging) {
          this.timeline.endDrag(id);
          if (last) this.actions.move(id, this.dropTarget(id, last));
        } else if (last && !isScroll) {
          this.actions.seek(this.timeline.placeOf(last));
          if (id) this.actions.choose(id);
        }
      },
    });
  }

  /**
   * Return the id of the line before which a dragged line would be inserted, or null.
   *
   * Null means the end of the script.
   *
   * @param {string} id id of the dragged line
   * @param {PointerEvent} event
   */
  dropTarget(id, event) {
    const at = this.timeline.placeOf(event);
    const next = this.timeline.clips.find(({ line, start, end }) => line.id !== id && at < (start + end) / 2);
    return next?.line.id ?? null;
  }

  /**
   * Change the silence after a line while its handle is dragged.
   *
   * A click on the handle moves the playback position.
   *
   * @param {string} id @param {PointerEvent} event
   */
  dragGap(id, event) {
    const { timeline, actions } = this;
    const before = actions.gapOf(id);
    const { clientX } = event;
    const scale = timeline.fixScale();
    this.isDragging = true;
    let isPulled = false;
    this.follow(event, {
      move: (moved) => {
        isPulled ||= Math.abs(moved.clientX - clientX) > MIN_DRAG_PX;
        if (!isPulled) return;
        const wanted = before + ((moved.clientX - clientX) * scale) / SAMPLE_RATE;
        const seconds = Math.max(0, Math.min(MAX_PAUSE_S, Math.round(wanted / GRID_S) * GRID_S));
        actions.setGap(id, Number(seconds.toFixed(2)));
        timeline.showAtPointer(moved, `${seconds.toFixed(2)} s`);
      },
      end: (last) => {
        const place = last && !isPulled ? timeline.placeOf(last) : null;
        timeline.fitScale();
        if (isPulled) actions.onGap(id, before);
        if (place !== null) actions.seek(place);
      },
    });
  }

  /**
   * Call functions while the pointer moves, and when it is released or cancelled.
   *
   * @param {PointerEvent} event
   * @param {{move: (event: PointerEvent) => void, end: (event: PointerEvent|null) => void}} acts end: called with null if the
   * pointer was cancelled
   */
  follow({ pointerId }, { move, end }) {
    const { inner } = this.timeline;
    inner.setPointerCapture(pointerId);
    /** @param {PointerEvent|null} last */
    const finish = (last) => {
      this.isHeld = false;
      inner.onpointerup = inner.onpointercancel = null;
      inner.onpointermove = (moved) => this.timeline.onHover(moved);
      end(last);
      this.isDragging = false;
    };
    this.isHeld = true;
    inner.onpointermove = move;
    inner.onpointerup = (last) => finish(last);
    inner.onpointercancel = () => finish(null);
  }
}

/**
 * Return the id of the line to whose clip or handle an element belongs, or null.
 *
 * @param {EventTarget|null} target
 * @param {'clip'|'gap'} kind
 */
function idAt(target, kind) {
  const element = target instanceof Element ? /** @type {HTMLElement|null} */ (target.closest(`[data-${kind}]`)) : null;
  return element?.dataset[kind] ?? null;
}
