import type UPlot from 'uplot'

declare global {
  /** From /console/uPlot.js, no module. */
  const uPlot: typeof UPlot
}
