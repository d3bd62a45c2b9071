/**
 * Player on the page: waveform, playback controls and metrics of the shown take.
 *
 * The player plays a playlist, which usually has one take. To continue after a pause or a seek, it starts a new
 * playlist at the position.
 *
 * The event 'change' is emitted when playback starts, pauses or ends, and when another take is shown. The event 'place'
 * is emitted when the position changes. The events 'star', 'share' and 'code' are emitted when the button with this
 * function is pressed.
 *
 * @typedef {import('./take.js').Take} Take
 * @typedef {import('../script/full_audio.js').FullAudio} FullAudio
 * @typedef {Take|FullAudio} ShownAudio  a take, or the full audio of a script
 */

import { clock, SAMPLE_RATE } from '../common/audio.js';
import { formatDuration } from '../common/dates.js';
import { setAttributes, getElement, throttle, writeText } from '../common/elements.js';
import { Player } from './player.js';
import { Playlist } from './playlist.js';
import { TakeActions, progressOf, Meter } from './stage_panel.js';
import { Waveform } from './waveform.js';

/** Seek distances in seconds by key. @type {Object<string, number>} */
const STEPS = { ArrowRight: 1, ArrowLeft: -1, ArrowUp: 1, ArrowDown: -1, PageUp: 5, PageDown: -5 };

/** @typedef {Pick<import('../script/full_audio.js').ScriptPlayback, 'onItem'|'place'>} ProgressCallbacks */

/** Display and playback of the current take in the dock. */
export class Stage extends EventTarget {
  /**
   * Create the player's display from the elements of a page.
   *
   * @param {ParentNode} page
   * @param {(key: string, values?: Object<string, unknown>) => string} t
   * @param {(take: Take) => string} captionOf
   */
  constructor(page, t, captionOf) {
    super();
    this.t = t;
    this.captionOf = captionOf;
    this.player = new Player();
    this.waveform = new Waveform(getElement(page, '#vw-wave', HTMLCanvasElement));
    this.meter = new Meter(page, t);
    this.slider = getElement(page, '#vw-seek');
    this.button = getElement(page, '#vw-play', HTMLButtonElement);
    this.time = getElement(page, '#vw-time');
    this.length = getElement(page, '#vw-length');
    this.hover = getElement(page, '#vw-hover');
    this.caption = getElement(page, '#vw-caption');
    this.progressBar = getElement(page, '#vw-making');
    this.takeActions = new TakeActions(page, this);
    /** @type {ShownAudio|null} */
    this.take = null;
    /** @type {Playlist|null} */
    this.playlist = null;
    /** Last shown take that has audio. @type {ShownAudio|null} */
    this.lastWithAudio = null;
    /** Callbacks for an item that consists of several takes, or null. @type {ProgressCallbacks|null} */
    this.callbacks = null;
    this.index = 0; // Index of the current item in the playlist.
    this.at = 0; // Position in the shown take in samples.
    this.playing = 0;
    this.reportedIndex = -1; // Index of the last item whose start was reported.
    this.onChange = () => this.refresh();
    /**
     * Show the playback position and the length after a short delay.
     *
     * During playback, this is repeated.
     */
    this.followSoon = throttle(() => {
      this.follow();
      if (this.isPlaying) this.followSoon();
    });
    this.listen();
  }

  listen() {
    this.button.onclick = () => this.toggle();
    this.slider.onkeydown = (event) => this.onKey(event);
    this.slider.onpointerdown = (event) => this.onPointer(event);
    this.slider.onpointermove = (event) => this.onHover(event);
    this.slider.onpointerleave = () => (this.hover.hidden = true);
    this.player.addEventListener('counters', () => this.readPosition());
    this.player.addEventListener('finished', () => this.onFinished());
    this.refresh();
  }

  /** True during playback, and while playback waits for audio. */
  get isPlaying() {
    return this.player.isPlaying;
  }

  /**
   * Play a take (generated audio), which may still be incomplete.
   *
   * Another playback is stopped.
   *
   * @param {Take} take
   * @param {{from?: number, gainDb?: number, clicked?: number}} [options]  from: start in seconds; clicked: time of the user's click (performance.now())
   */
  play(take, { from = 0, gainDb = 0, clicked } = {}) {
    if (clicked !== undefined) this.watch(take, clicked);
    if (take !== this.take) this.setTake(take); // Show the take immediately, because its audio may have to be loaded.
    return this.begin(new Playlist([take], { gainDb }), { at: Math.round(from * SAMPLE_RATE) });
  }

  /**
   * Measure the delays of a new take, and adapt the start buffer to its arrival times.
   *
   * @param {Take} take
   * @param {number} clicked time of the user's click (performance.now())
   */
  watch(take, clicked) {
    take.timing = { clicked, ttfa: null, audible: null, underruns: null };
    // Do not learn from typed text, whose pauses are not delays of the runtime.
    if (!take.isTyped) take.addEventListener('done', () => this.player.pace.learn(take.arrivals, take.parallel));
  }

  /**
   * Play the audio of a script from a position, without gaps between the lines.
   *
   * @param {FullAudio} fullAudio @param {number} [at] position in samples @param {{only?: boolean}} [options] only: true to play one line
   */
  playScript(fullAudio, at = 0, options = {}) {
    if (fullAudio !== this.take) this.setTake(fullAudio);
    const { items, skip, ...sounding } = fullAudio.from(at, options);
    const pumped = this.begin(new Playlist(items), { at: skip }, sounding, at);
    pumped.catch((error) => fullAudio.onError(error));
  }

  /**
   * Show generated audio (a take) in the player without playing it.
   *
   * @param {ShownAudio|null} take null to show nothing
   */
  show(take) {
    if (this.isPlaying) this.stop();
    this.playlist = take && new Playlist(isFullAudio(take) ? [] : [take]);
    this.callbacks = null;
    this.index = 0;
    this.at = 0;
    this.setTake(take);
  }

  /**
   * Start to play a playlist from a position, given as an item and a position in the item.
   *
   * @param {Playlist} playlist @param {{index?: number, at?: number}} [from] index: number of the item; at: position in the item in samples
   * @param {ProgressCallbacks|null} [callbacks]  callbacks for the full audio of a script, or null for a take @param {number} [shownPosition] position in the shown take in samples
   */
  begin(playlist, { index = 0, at = 0 } = {}, callbacks = null, shownPosition = at) {
    this.playlist = playlist;
    this.callbacks = callbacks;
    this.index = index;
    this.at = shownPosition;
    this.reportedIndex = -1;
    const playing = this.player.begin(callbacks || isFullAudio(this.take) ? {} : (this.take ?? {}));
    this.playing = playing;
    const pumped = this.feedPlayer(playlist, playing, { index, at });
    this.refresh();
    this.followSoon();
    return pumped;
  }

  /**
   * Pass the audio of a playlist to the audio player as it becomes available.
   *
   * @param {Playlist} playlist
   * @param {number} playing number of the playback
   * @param {{index: number, at: number}} from index: number of the item; at: position in the item in samples
   */
  async feedPlayer(playlist, playing, from) {
    for await (const pcm of playlist.pieces(from)) {
      if (playing !== this.playing) return;
      this.player.push(playing, pcm);
    }
    if (playing === this.playing) this.player.end(playing);
  }

  pause() {
    if (!this.isPlaying) return;
    this.follow();
    this.silence();
  }

  resume() {
    if (this.isPlaying || !this.playlist) return;
    if (this.take && !this.take.isReceiving && this.at >= this.take.samples) {
      this.index = 0;
      this.at = 0;
    }
    this.player.start().catch(() => {});
    this.playFromHere();
  }

  /** Start playback at the current position. */
  playFromHere() {
    if (isFullAudio(this.take)) this.playScript(this.take, this.at);
    else if (this.playlist) this.begin(this.playlist, { index: this.index, at: this.at });
  }

  toggle() {
    if (this.isPlaying) this.pause();
    else this.resume();
  }

  /**
   * Stop the playback, and go back to the beginning.
   *
   * The position in the audio of a script does not change.
   */
  stop() {
    this.silence();
    if (isFullAudio(this.take)) return;
    this.index = 0;
    this.at = 0;
  }

  silence() {
    this.playing = 0;
    this.player.stop();
    this.refresh();
  }

  /** Move the position in the shown take, and continue playback there. @param {number} at position in samples */
  seek(at) {
    if (!this.take) return;
    this.at = Math.max(0, Math.min(this.take.samples, Math.round(at)));
    if (this.isPlaying) this.playFromHere();
    this.paint();
  }

  /** Move the playback position by an arrow key, Page Up, Page Down, Home or End. @param {KeyboardEvent} event */
  onKey(event) {
    const { key } = event;
    if (!this.take) return;
    if (key in STEPS) this.seek(this.at + STEPS[key] * SAMPLE_RATE);
    else if (key === 'Home') this.seek(0);
    else if (key === 'End') this.seek(this.take.samples);
    else return;
    event.preventDefault();
  }

  /** Move the playback position to the pointer, and start playback. @param {PointerEvent} event */
  onPointer(event) {
    if (!this.take?.samples || event.button !== 0) return;
    this.seek(this.pointerShare(event) * this.waveform.span);
    this.resume();
  }

  /** Return the horizontal position of the pointer in the waveform, from 0 to 1. @param {PointerEvent} event */
  pointerShare({ clientX }) {
    const { left, width } = this.waveform.canvas.getBoundingClientRect();
    return Math.max(0, Math.min(1, (clientX - left) / width));
  }

  /** Show the time at the pointer's position in the waveform. @param {PointerEvent} event */
  onHover(event) {
    const at = this.pointerShare(event) * this.waveform.span;
    this.hover.hidden = !this.take?.samples || at > this.take.samples;
    this.hover.textContent = clock(at);
    this.hover.style.left = `${100 * this.pointerShare(event)}%`;
  }

  /** Read the position from the audio player, and show it. */
  follow() {
    this.readPosition();
    this.paint();
  }

  /** Read the position from the audio player. */
  readPosition() {
    const { player } = this;
    if (this.playing !== player.take || !player.counters || !this.playlist) return;
    const place = this.playlist.locate(player.position());
    if (place) this.showItem(place.span, place.at);
  }

  /**
   * Set the position to a place in an item, and report the start of the item.
   *
   * @param {import('./playlist.js').Span} span @param {number} at position in the item in samples
   */
  showItem({ item, index, start }, at) {
    if (this.reportedIndex !== index) {
      this.reportedIndex = index;
      this.index = index;
      this.callbacks?.onItem(index);
    }
    const underruns = this.player.counters?.underruns ?? null;
    if (this.callbacks) {
      this.at = this.callbacks.place(index, at) ?? this.at;
      if (this.take) this.take.timing.underruns = underruns;
      return;
    }
    if ('silence' in item) return;
    if (item !== this.take) this.setTake(item);
    this.at = Math.min(at, item.samples);
    const { timing } = item;
    timing.underruns = underruns;
    if (timing.clicked === null || timing.audible !== null || start > 0) return;
    const audible = this.player.audibleAt();
    const arrivedAt = item.arrivals[0]?.arrivedAt ?? timing.clicked;
    // After a stall, an output's clock can be late, so that audio seems to be played before it arrived.
    if (audible !== null) timing.audible = Math.max(audible, arrivedAt, timing.clicked) - timing.clicked;
  }

  /** Show the previous audio again if a generation failed before any audio arrived. @param {Take} take */
  showPrevious(take) {
    if (take === this.take && !take.samples && this.lastWithAudio) this.show(this.lastWithAudio);
  }

  /** Show other audio in the player instead of the current audio. @param {ShownAudio|null} take */
  setTake(take) {
    if (this.take?.samples) this.lastWithAudio = this.take;
    this.at = 0;
    for (const event of ['state', 'done', 'error', 'stored']) {
      this.take?.removeEventListener(event, this.onChange);
      take?.addEventListener(event, this.onChange);
    }
    this.take?.removeEventListener('progress', this.followSoon);
    take?.addEventListener('progress', this.followSoon);
    this.take = take;
    this.waveform.show(take);
    this.refresh();
  }

  onFinished() {
    this.follow();
    this.refresh();
  }

  paint() {
    const { take, slider } = this;
    const timing = take?.timing;
    const [first] = take?.arrivals ?? [];
    if (first && timing?.ttfa === null && timing.clicked !== null && first.arrivedAt >= timing.clicked) timing.ttfa = first.arrivedAt - timing.clicked;
    this.waveform.seek(this.at);
    this.meter.show(take);
    writeText(this.time, clock(this.at));
    this.paintLength(take);
    setAttributes(slider, {
      'aria-valuenow': (this.at / SAMPLE_RATE).toFixed(1),
      'aria-valuemax': (take?.seconds ?? 0).toFixed(1),
      'aria-valuetext': `${clock(this.at)} / ${clock(take?.samples ?? 0)}`,
    });
    this.dispatchEvent(new Event('place'));
  }

  /**
   * Show the length of the audio.
   *
   * During generation, show the estimated length and the progress.
   *
   * @param {ShownAudio|null} take
   */
  paintLength(take) {
    const progress = take && !isFullAudio(take) ? progressOf(take, performance.now()) : null;
    const length = progress ? this.t('shell.about_length', { time: clock(progress.samples).replace(/\.\d$/, '') }) : clock(take?.samples ?? 0);
    writeText(this.length, take?.samples ? `/ ${length}` : '');
    const percent = Math.floor(100 * (progress?.share ?? 0));
    const left = progress?.left ?? null;
    const estimate = progress ? this.t(left === null ? 'shell.made' : 'shell.made_left', { n: percent, time: formatDuration(left ?? 0, this.t) }) : '';
    writeText(this.progressBar, estimate);
  }

  refresh() {
    const { take } = this;
    if (take && !this.isPlaying) this.at = Math.min(this.at, take.samples);
    const label = this.t(this.isPlaying ? 'shell.pause' : 'shell.play');
    setAttributes(this.button, { 'data-icon': this.isPlaying ? 'pause' : 'play' });
    if (this.button.ariaLabel !== label) this.button.ariaLabel = label;
    this.button.disabled = !this.isPlaying && !take?.samples;
    writeText(this.caption, isFullAudio(take) ? take.label : take ? this.captionOf(take) : '');
    this.takeActions.show(take);
    this.paint();
    this.dispatchEvent(new Event('change'));
  }
}

/**
 * Return true if the shown audio is the full audio of a script.
 *
 * @param {ShownAudio|null} take
 * @returns {take is FullAudio}
 */
function isFullAudio(take) {
  return take !== null && 'from' in take;
}
