import type { Families } from './metric-table.ts'

const SAMPLE_MS = 250

/**
 * Measures how late timers fire, and how long the event loop has worked. Not by the library's own gauges of the lag: they contain
 * the time between two samples, and each scrape resets them for the next one.
 */
export function watchEventLoop(families: Families): void {
  const lag = families.gateway_event_loop_lag_seconds
  lag.begin()
  families.gateway_event_loop_active_seconds_total.read(
    () => performance.eventLoopUtilization().active / 1000,
  )
  let dueMs = performance.now() + SAMPLE_MS
  const sample = () => {
    const nowMs = performance.now()
    lag.observe(Math.max(0, nowMs - dueMs) / 1000)
    dueMs = nowMs + SAMPLE_MS
  }
  setInterval(sample, SAMPLE_MS).unref()
}
