/**
 * Ends the loop that Gradio's loading sign leaves behind: it counts the seconds of a sign that has gone, at every frame,
 * so that a page on which nothing moves costs some percent of a core.
 *
 * The loop is none of ours and has no handle. It is known by what it does: on a page that rests, one callback is asked for
 * in each frame, and always one. A browser numbers what is asked for, so the one of the last frame can be taken back.
 */

const SURE = 60; // Consecutive frames, after which any finite movement is over.
const TRIES = 1200;

export function endLeftFrames() {
  let seen = 0;
  let left = TRIES;
  const watch = () => {
    const own = requestAnimationFrame(() => {
      // Behind what loops asked for in this frame, which came before.
      const next = requestAnimationFrame(() => {});
      cancelAnimationFrame(next);
      seen = next - own === 2 ? seen + 1 : 0;
      if (seen >= SURE) cancelAnimationFrame(next - 1);
      else if (--left > 0) setTimeout(watch);
    });
  };
  watch();
}
