import type { Duplex } from 'node:stream'

/** How long the last bytes of one side may take to reach the other. */
const LAST_BYTES_MS = 10_000

/**
 * Carries bytes both ways with back-pressure until both sides have ended or one has failed. What a side had sent
 * before it ended still reaches the other.
 *
 * @param onEnd called once, when the downstream side is closed.
 */
export function tunnel(downstream: Duplex, upstream: Duplex, onEnd: () => void): void {
  downstream.once('close', onEnd)
  follow(downstream, upstream)
  follow(upstream, downstream)
  upstream.pipe(downstream)
  downstream.pipe(upstream)
}

function follow(side: Duplex, other: Duplex): void {
  // Its close follows, and an error without a listener would end the process.
  side.on('error', () => {})
  side.once('close', () => {
    if (other.destroyed) return
    if (side.errored !== null || other.writableFinished) {
      other.destroy()
      return
    }
    const timer = setTimeout(() => other.destroy(), LAST_BYTES_MS)
    other.once('finish', () => other.destroy())
    other.once('close', () => clearTimeout(timer))
    other.end()
  })
}
