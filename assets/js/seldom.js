/**
 * Has what follows a sound done at most so often: each time costs the browser a style, a layout and a paint, on a laptop
 * as much of a core as the voice itself would have.
 */

const STEP_MS = 66;

/**
 * A function that has `action` done soon, once for all calls until then.
 *
 * @param {() => void} action @param {number} [ms] from the first of the calls
 */
export function seldom(action, ms = STEP_MS) {
  /** @type {ReturnType<typeof setTimeout>|undefined} */
  let timer;
  const act = () => {
    timer = undefined;
    action();
  };
  return () => {
    timer ??= setTimeout(act, ms);
  };
}
