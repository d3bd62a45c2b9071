/** A small calm chart: one or two lines over the last minutes, drawn as SVG. */

const SVG = 'http://www.w3.org/2000/svg';
const WIDTH = 100;
const HEIGHT = 30;

export class Sparkline {
  /** @param {number} lines how many @param {number} length points that are kept of each */
  constructor(lines, length) {
    this.length = length;
    /** @type {(number|null)[][]} */
    this.points = Array.from({ length: lines }, () => []);
    this.element = document.createElementNS(SVG, 'svg');
    this.element.setAttribute('viewBox', `0 0 ${WIDTH} ${HEIGHT}`);
    this.element.setAttribute('preserveAspectRatio', 'none');
    this.element.setAttribute('aria-hidden', 'true'); // The number next to it says the same.
    this.drawn = this.points.map(() => this.element.appendChild(document.createElementNS(SVG, 'polyline')));
  }

  /** Add a point to each line; null where nothing is known. @param {(number|null)[]} values */
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
 * The newest point stands at the right edge, the largest at the top.
 *
 * @param {(number|null)[]} points @param {number} length @param {number} most
 */
function path(points, length, most) {
  const x = (/** @type {number} */ index) => WIDTH - ((points.length - 1 - index) * WIDTH) / (length - 1);
  return points
    .flatMap((value, index) => (value === null ? [] : [`${x(index).toFixed(2)},${(HEIGHT - (value / most) * HEIGHT).toFixed(2)}`]))
    .join(' ');
}
