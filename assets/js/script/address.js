/** The address of a script, `#/script/<id>`: for bookmarks, for the Library, for Back, and for a reload. */

/** The script that the address names; null: none. @returns {string|null} */
export function addressedScript() {
  const [, id] = /^#\/script\/([\w-]{1,64})$/.exec(location.hash) ?? [];
  return id ?? null;
}

/**
 * Have the address name the open script, while it names the room.
 *
 * @param {string} id @param {boolean} isNext  Back leads to the script that it named before
 */
export function nameScript(id, isNext) {
  const before = addressedScript();
  if (id === before || !/^#\/script(\/|$)/.test(location.hash)) return;
  const there = new URL(location.href);
  there.hash = `/script/${id}`;
  if (isNext && before) history.pushState(null, '', there);
  else history.replaceState(history.state, '', there);
}
