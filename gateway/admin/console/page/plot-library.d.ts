import type UPlot from 'uplot'

declare global {
  /** The global of /console/uPlot.js, which is no module. */
  const uPlot: typeof UPlot
}
