/** Metrics of the runtime in the Host room: numbers with charts of the last three minutes. */

import { createElement } from '../common/elements.js';

// --- SVG chart with one or two lines.

const SVG = 'http://www.w3.org/2000/svg';
const WIDTH = 100;
const HEIGHT = 30;

/** Small line chart of the latest values of one or several metrics. */
export class Sparkline {
  /** Create an empty chart. @param {number} lines number of lines @param {number} length number of points per line */
  constructor(lines, length) {
    this.length = length;
    /** @type {(number|null)[][]} */
    this.points = Array.from({ length: lines }, () => []);
    this.element = document.createElementNS(SVG, 'svg');
    this.element.setAttribute('viewBox', `0 0 ${WIDTH} ${HEIGHT}`);
    this.element.setAttribute('preserveAspectRatio', 'none');
    this.element.setAttribute('aria-hidden', 'true'); // Screen readers read the number next to the chart instead.
    this.drawn = this.points.map(() => this.element.appendChild(document.createElementNS(SVG, 'polyline')));
  }

  /** Add one point to each line of the chart, or a gap if the value is null. @param {(number|null)[]} values */
  add(values) {
    values.forEach((value, index) => {
      this.points[index].push(value);
      if (this.points[index].length > this.length) this.points[index].shift();
    });
    const most = Math.max(1e-9, ...this.points.flat().filter((value) => value !== null));
    this.drawn.forEach((line, index) => line.setAttribute('points', path(this.points[index], this.length, most)));
  }
}

/**
 * Return the points of a line for an SVG polyline, with the newest point at the right.
 *
 * @param {(number|null)[]} points @param {number} length @param {number} max largest value, which is drawn at the top
 */
function path(points, length, max) {
  const x = (/** @type {number} */ index) => WIDTH - ((points.length - 1 - index) * WIDTH) / (length - 1);
  return points
    .flatMap((value, index) => (value === null ? [] : [`${x(index).toFixed(2)},${(HEIGHT - (value / max) * HEIGHT).toFixed(2)}`]))
    .join(' ');
}

// --- Metrics of the runtime.

/**
 * @typedef {Object} RuntimeMetrics           metrics of the runtime, counted since its start
 * @property {number} slots
 * @property {number} active
 * @property {number} waiting
 * @property {number} frames
 * @property {number} underruns
 * @property {number} uncaptured
 * @property {number|null} ttfa_p50_s  null before the first speech
 * @property {number|null} ttfa_p95_s
 * @property {{total?: number, free?: number}} memory  memory of the device in bytes, or empty if unknown
 * @property {{own: number, available: number}|null} [host]  memory of the studio's machine in bytes, or null if unknown
 *
 * @typedef {Object} Figure
 * @property {string} name
 * @property {number} count        number of lines
 * @property {(now: RuntimeMetrics, rate: number|null) => (number|null)[]} lines  rate: frames per second, or null if not yet known
 * @property {(now: RuntimeMetrics, rate: number|null, t: Translate) => [string, string]} say   returns the large text and the small text
 * @property {(now: RuntimeMetrics, device: {isCpu: boolean}) => boolean} [isHidden]  returns true if the figure does not apply
 *
 * @typedef {(key: string, values?: Object<string, unknown>) => string} Translate
 */

const CHART_POINTS = 90; // Number of points in a chart, which shows three minutes with a point every two seconds.

/** @type {Figure[]} */
const FIGURES = [
  { name: 'active', count: 2, lines: (now) => [now.active, now.waiting], say: (now, _, t) => [`${now.active} / ${now.slots}`, t('host.figure.waiting', { n: now.waiting })] },
  { name: 'frames', count: 1, lines: (_, rate) => [rate], say: (_, rate) => [integer(rate), ''] },
  {
    name: 'ttfa',
    count: 2,
    lines: (now) => [now.ttfa_p50_s, now.ttfa_p95_s],
    say: (now) => [milliseconds(now.ttfa_p50_s), `p95 ${milliseconds(now.ttfa_p95_s)}`],
  },
  { name: 'underruns', count: 1, lines: (now) => [now.underruns], say: (now) => [integer(now.underruns), ''] },
  { name: 'uncaptured', count: 1, isHidden: (_, { isCpu }) => isCpu, lines: (now) => [now.uncaptured], say: (now) => [integer(now.uncaptured), ''] },
  {
    name: 'memory',
    count: 1,
    isHidden: ({ host }) => !host,
    lines: ({ host }) => [host?.own ?? null],
    say: ({ host }, _, t) => [gibibytes(host?.own ?? 0), t('host.figure.available', { free: gibibytes(host?.available ?? 0) })],
  },
  {
    name: 'device_memory',
    count: 1,
    isHidden: (_, { isCpu }) => isCpu, // A CPU has no separate device memory.
    lines: (now) => [used(now)],
    say: (now) => [gibibytes(used(now)), `/ ${gibibytes(now.memory.total ?? 0)}`],
  },
];

/** Metrics of the runtime in the Host room, with charts of the last three minutes. */
export class Figures {
  /** Create the figures and their charts in an element. @param {HTMLElement} element @param {Translate} t */
  constructor(element, t) {
    this.t = t;
    /** Last frame count and its time (performance.now()), or null. @type {{frames: number, at: number}|null} */
    this.lastCount = null;
    this.shown = FIGURES.map(({ name, count, lines, say, isHidden = () => false }) => {
      const chart = new Sparkline(count, CHART_POINTS);
      const caption = createElement('figcaption', { textContent: t(`host.figure.${name}`) });
      caption.dataset.i18n = `host.figure.${name}`;
      const large = new Text('–');
      const small = createElement('small');
      const value = createElement('div', { className: 'vw-host-value' }, [large, small]);
      const title = t(`host.figure.${name}_title`);
      const figure = createElement('figure', { id: `vw-host-figure-${name}`, title }, [caption, value, chart.element]);
      figure.dataset.i18nTitle = `host.figure.${name}_title`;
      element.append(figure);
      return { figure, chart, large, small, lines, say, isHidden };
    });
  }

  /** Show new values of the runtime's metrics. @param {RuntimeMetrics} metrics @param {{isCpu: boolean}} device */
  show(metrics, device) {
    const rate = this.rate(metrics.frames);
    for (const { figure, chart, large, small, lines, say, isHidden } of this.shown) {
      figure.hidden = isHidden(metrics, device);
      chart.add(lines(metrics, rate));
      const [main, unit] = say(metrics, rate, this.t);
      large.data = `${main} `;
      small.textContent = unit;
    }
  }

  /**
   * Return the frames generated per second since the last call, or null if unknown.
   *
   * The rate is unknown at the first call, and after a restart of the runtime.
   *
   * @param {number} frames number of frames since the start of the runtime
   */
  rate(frames) {
    const at = performance.now();
    const { lastCount } = this;
    this.lastCount = { frames, at };
    return lastCount && lastCount.frames <= frames ? (frames - lastCount.frames) / ((at - lastCount.at) / 1000) : null;
  }
}

/** @param {number|null} value */
const integer = (value) => (value === null ? '–' : Math.round(value).toLocaleString());
/** @param {number|null} seconds */
const milliseconds = (seconds) => (seconds === null ? '–' : `${Math.round(seconds * 1000)} ms`);
/** @param {number} bytes */
const gibibytes = (bytes) => `${(bytes / 2 ** 30).toFixed(1)} GiB`;
/** Return the used memory of the runtime's device in bytes. @param {RuntimeMetrics} now */
const used = ({ memory: { total = 0, free = 0 } }) => total - free;
