/** The script's name, the list of scripts, and how far saving is. */

export class ShelfView {
  /** @param {HTMLElement} root the room's panel @param {Object} room  studio, shelf; sample(preset), empty() */
  constructor(root, room) {
    this.room = room;
    this.studio = room.studio;
    this.shelf = room.shelf;
    const names = ['name', 'saved', 'shelf', 'list', 'new', 'delete', 'samples', 'conflict'];
    this.parts = Object.fromEntries(names.map((name) => [name, root.querySelector(`#vw-script-${name}`)]));
    this.listen();
  }

  listen() {
    const { parts, shelf, room } = this;
    for (const event of ['open', 'list', 'state']) shelf.addEventListener(event, () => this.show());
    parts.name.oninput = () => shelf.script.set({ name: parts.name.value });
    parts.new.onclick = () => this.choose(() => shelf.open(room.empty()));
    parts.delete.onclick = () => this.choose(() => this.remove());
    const { shelf: menu } = parts;
    const close = () => (menu.open = false);
    menu.addEventListener('focusout', ({ relatedTarget }) => relatedTarget && !menu.contains(relatedTarget) && close());
    document.addEventListener('pointerdown', ({ target }) => menu.contains(target) || close());
    menu.addEventListener('keydown', (event) => {
      if (event.key !== 'Escape' || !menu.open) return;
      event.stopPropagation();
      close();
      menu.querySelector('summary').focus();
    });
    this.offerSamples();
  }

  /** The scripts to begin with, by their names in the page's language. */
  offerSamples() {
    const { studio, shelf, room, parts } = this;
    const samples = studio.presets.scripts.map((preset) => entry(preset.name, () => this.choose(() => shelf.open(room.sample(preset), 'new'))));
    parts.samples.replaceChildren(...samples);
  }

  /** Close the menu and do what was chosen in it. @param {() => void|Promise<void>} action */
  async choose(action) {
    this.parts.shelf.open = false;
    this.parts.shelf.querySelector('summary').focus();
    try {
      await this.shelf.flush();
      await action();
    } catch (error) {
      this.studio.toast(error.message);
    }
  }

  async remove() {
    const { t } = this.studio;
    const name = this.nameOf(this.shelf.script);
    const undo = await this.shelf.remove(() => this.room.empty());
    const onAction = () => undo().catch((error) => this.studio.toast(error.message));
    this.studio.toast(t('script.deleted', { name }), { action: t('shell.undo'), onAction });
  }

  nameOf({ name }) {
    return name || this.studio.t('script.untitled');
  }

  show() {
    const { parts, shelf, studio } = this;
    const { script, state, list } = shelf;
    if (!script) return;
    if (parts.name.value !== script.name) parts.name.value = script.name;
    const said = { new: '', unsaved: '', saving: 'script.saving', saved: 'script.saved', conflict: '', unkept: '' }[state];
    parts.saved.textContent = said && studio.t(said);
    parts.list.replaceChildren(...list.map((one) => this.entry(one, one.id === script.id)));
    parts.list.hidden = list.length === 0;
    this.complain(state);
  }

  entry(one, isOpen) {
    const item = entry(this.nameOf(one), () => this.choose(() => this.shelf.load(one.id)));
    if (isOpen) item.firstElementChild.ariaCurrent = 'true';
    return item;
  }

  /** What stands in the way of saving, and what to do about it. @param {string} state */
  complain(state) {
    const { parts, shelf, studio } = this;
    const { t } = studio;
    if (state === 'conflict') {
      const theirs = button(t('script.take_theirs'), () => this.choose(() => shelf.takeTheirs()));
      const mine = button(t('script.keep_mine'), () => this.choose(() => shelf.keepMine()));
      parts.conflict.replaceChildren(t('script.conflict'), ' ', theirs, ' ', mine);
    } else if (state === 'unkept' && !shelf.error.missing) {
      const again = button(t('script.save_again'), () => this.choose(() => shelf.save()));
      parts.conflict.replaceChildren(shelf.error.message, ' ', again);
    } else {
      parts.conflict.replaceChildren();
    }
  }
}

function button(label, action) {
  const element = Object.assign(document.createElement('button'), { type: 'button', textContent: label });
  element.onclick = action;
  return element;
}

function entry(label, action) {
  const item = document.createElement('li');
  item.append(button(label, action));
  return item;
}
