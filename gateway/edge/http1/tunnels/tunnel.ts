import type { Duplex } from 'node:stream'

/** How long the last bytes may take after one side has ended. */
const LAST_BYTES_MS = 10_000

/**
 * Copies bytes both ways with back-pressure until both sides have ended or one has failed. What a side sent before its
 * end still reaches the other, within a time limit.
 *
 * @param onEnd called once, when both sides are closed.
 */
export function tunnel(downstream: Duplex, upstream: Duplex, onEnd: () => void): void {
  let open = 2
  let lastBytes: NodeJS.Timeout | undefined
  const windDown = () => {
    lastBytes ??= setTimeout(() => {
      downstream.destroy()
      upstream.destroy()
    }, LAST_BYTES_MS)
  }
  const join = (side: Duplex, other: Duplex) => {
    // An error without a listener would end the process. `close` follows.
    side.on('error', () => {})
    side.once('end', windDown)
    side.once('close', () => {
      windDown()
      open -= 1
      if (open === 0) {
        clearTimeout(lastBytes)
        onEnd()
      } else if (side.errored !== null || other.writableFinished) other.destroy()
      else other.end(() => other.destroy())
    })
    side.pipe(other)
  }
  join(upstream, downstream)
  join(downstream, upstream)
}
