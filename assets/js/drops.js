/** Files that are dropped onto a place of the page, which shows that it takes them (`vw-drop`). */

/** @param {HTMLElement} place @param {(files: File[]) => void} take */
export function takeDrops(place, take) {
  /** @param {boolean} on */
  const hover = (on) => place.classList.toggle('vw-drop', on);
  place.ondragover = (event) => {
    if (!event.dataTransfer?.types.includes('Files')) return;
    event.preventDefault();
    hover(true);
  };
  place.ondragleave = () => hover(false);
  place.ondrop = (event) => {
    event.preventDefault();
    hover(false);
    take([...(event.dataTransfer?.files ?? [])]);
  };
}
