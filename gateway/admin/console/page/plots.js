/** @import { History, Point } from '../wire.ts' */
/** @import UPlot from 'uplot' */
import { byId } from './elements.js'

const SHOWN_SECONDS = 900
const LEAST_SECONDS = 60
const HEIGHT = 220
const LATENCY = 'latency-plot'
/** The logarithmic axis begins here. */
const LEAST_MS = 0.1

/**
 * @typedef {object} Line
 * @property {string} label
 * @property {'--plot-1' | '--plot-2' | '--plot-3'} color
 * @property {(point: Point) => number | null} value
 * @property {number[]} [dash] Lines must not differ by colour alone.
 */

/** @type {Readonly<Record<string, readonly Line[]>>} */
const PLOTS = {
  'requests-plot': [
    { label: 'below 400', color: '--plot-1', value: ({ ok }) => ok },
    { label: '4xx', color: '--plot-2', value: ({ clientErrors }) => clientErrors, dash: [8, 3] },
    { label: '5xx', color: '--plot-3', value: ({ serverErrors }) => serverErrors, dash: [2, 2] },
  ],
  'refused-plot': [{ label: 'refused', color: '--plot-2', value: ({ refused }) => refused }],
  [LATENCY]: [
    { label: 'p50', color: '--plot-1', value: ({ p50Ms }) => p50Ms },
    { label: 'p95', color: '--plot-2', value: ({ p95Ms }) => p95Ms, dash: [8, 3] },
    { label: 'p99', color: '--plot-3', value: ({ p99Ms }) => p99Ms, dash: [2, 2] },
  ],
}

export class Plots {
  /** @type {Point[]} */
  #points = []
  /** @type {{ id: string, lines: readonly Line[], plot: UPlot }[]} */
  #plots = []

  constructor() {
    this.draw()
    const resized = new ResizeObserver(() => {
      for (const { id, plot } of this.#plots) plot.setSize({ width: widthOf(id), height: HEIGHT })
    })
    for (const id of Object.keys(PLOTS)) resized.observe(byId(id))
  }

  /** Draws the plots anew, in the colours of the theme. */
  draw() {
    for (const { plot } of this.#plots) plot.destroy()
    this.#plots = Object.entries(PLOTS).map(([id, lines]) => {
      const plot = new uPlot(optionsOf(id, lines), [[], ...lines.map(() => [])], byId(id))
      plot.root.querySelector('canvas')?.setAttribute('role', 'img')
      return { id, lines, plot }
    })
    this.#show()
  }

  /** @param {History} points */
  begin(points) {
    this.#points = [...points]
    this.#show()
  }

  /** @param {Point} point */
  add(point) {
    // The gateway's clock was set back.
    if (point.t < (this.#points.at(-1)?.t ?? 0)) this.#points = []
    this.#points.push(point)
    const from = point.t - SHOWN_SECONDS
    while ((this.#points[0]?.t ?? from) < from) this.#points.shift()
    this.#show()
  }

  #show() {
    const end = this.#points.at(-1)?.t ?? Date.now() / 1000
    const begin = Math.max(end - SHOWN_SECONDS, Math.min(end - LEAST_SECONDS, this.#points[0]?.t ?? end))
    const times = this.#points.map(({ t }) => t)
    for (const { id, lines, plot } of this.#plots) {
      const values = lines.map(({ value }) => this.#points.map(value))
      const highest = Math.max(1, ...values.flat().map((value) => value ?? 0))
      plot.batch(() => {
        plot.setData([times, ...values], false)
        plot.setScale('x', { min: begin, max: end })
        plot.setScale('y', { min: id === LATENCY ? LEAST_MS : 0, max: highest * 1.05 })
      })
      // The legend shows the values under the pointer, or the newest.
      plot.setLegend({}, false)
      const now = lines.map(({ label }, i) => `${label} ${inWords(values[i]?.at(-1))}`)
      const title = byId(id).previousElementSibling?.textContent
      const canvas = plot.root.querySelector('canvas')
      canvas?.setAttribute(
        'aria-label',
        `${title}, the last ${Math.round((end - begin) / 60)} min; now ${now.join(', ')}`,
      )
    }
  }
}

/** @param {number | null | undefined} value */
function inWords(value) {
  return value?.toLocaleString('en', { maximumFractionDigits: 1 }) ?? '–'
}

/** Finds values that no line shows, to mark them. @param {UPlot} plot @param {number} seriesIndex */
function alone(plot, seriesIndex) {
  const values = plot.data[seriesIndex] ?? []
  return [...values.keys()].filter(
    (i) =>
      (values[i] ?? null) !== null && (values[i - 1] ?? null) === null && (values[i + 1] ?? null) === null,
  )
}

/** @param {number | undefined} seconds */
function clockTime(seconds) {
  return seconds === undefined ? '–' : new Date(seconds * 1000).toLocaleTimeString('en-GB')
}

/** @param {string} id */
function widthOf(id) {
  return Math.max(200, byId(id).clientWidth)
}

/** @param {string} id @param {readonly Line[]} lines @returns {UPlot.Options} */
function optionsOf(id, lines) {
  const plot = byId(id)
  const color = (/** @type {string} */ name) => {
    plot.style.color = `var(${name})`
    return getComputedStyle(plot).color
  }
  const axis = {
    stroke: color('--faint'),
    font: '12px system-ui, sans-serif',
    grid: { stroke: color('--grid'), width: 1 },
    ticks: { stroke: color('--grid'), width: 1 },
  }
  return {
    width: widthOf(id),
    height: HEIGHT,
    scales: { x: { time: true, auto: false }, y: { auto: false, distr: id === LATENCY ? 3 : 1 } },
    cursor: { drag: { x: false, y: false }, points: { size: 6 } },
    axes: [
      { ...axis, values: '{HH}:{mm}', space: 60, incrs: [60, 120, 300] },
      { ...axis, size: 56, values: (_plot, ticks) => ticks.map((tick) => tick?.toLocaleString('en') ?? '') },
    ],
    series: [
      { label: 'at', value: (plot, seconds) => clockTime(seconds ?? plot.data[0].at(-1)) },
      ...lines.map((line) => ({
        label: line.label,
        stroke: color(line.color),
        width: 2,
        ...(line.dash !== undefined && { dash: line.dash }),
        points: { show: true, size: 4, filter: alone },
        value: (
          /** @type {UPlot} */ plot,
          /** @type {number | null} */ value,
          /** @type {number} */ series,
          /** @type {number | null} */ index,
        ) => inWords(index === null ? plot.data[series]?.at(-1) : value),
      })),
    ],
  }
}
