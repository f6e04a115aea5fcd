import type UPlot from 'uplot'

declare global {
  /** From /console/uPlot.js, which is no module. */
  const uPlot: typeof UPlot
}
