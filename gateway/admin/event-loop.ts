import { Counter, type Registry } from 'prom-client'
import { Spreading } from './tally.ts'

const SAMPLE_MS = 250
const BUCKETS_SECONDS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5]

/**
 * How late timers fire, and how long the event loop has worked. Not the library's own gauges of the lag: they
 * contain the time between two samples, and each scrape resets them for the next one.
 */
export function watchEventLoop(registers: Registry[]): Spreading {
  new Counter({
    name: 'gateway_event_loop_active_seconds_total',
    help: 'Time that the event loop was not waiting; a gateway is at its limit when it grows by 1 each second.',
    registers,
    collect() {
      this.reset()
      this.inc(performance.eventLoopUtilization().active / 1000)
    },
  })
  const lag = new Spreading(
    {
      name: 'gateway_event_loop_lag_seconds',
      help: 'How late a timer fired, four times a second: how long any event waits for its turn.',
      labelNames: [],
    },
    BUCKETS_SECONDS,
  )
  let dueMs = performance.now() + SAMPLE_MS
  const sample = () => {
    const nowMs = performance.now()
    lag.observe(Math.max(0, nowMs - dueMs) / 1000)
    dueMs = nowMs + SAMPLE_MS
  }
  setInterval(sample, SAMPLE_MS).unref()
  return lag
}
