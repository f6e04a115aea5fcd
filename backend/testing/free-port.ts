import { once } from 'node:events'
import { createServer } from 'node:net'

/**
 * The first port to try. The range is below the ports that systems assign themselves, so a free port stays free until somebody
 * names it, and above the ports that `fetch` and browsers refuse.
 */
const FIRST = 20_000
const COUNT = 12_000

let next = Math.floor(Math.random() * COUNT)

/** A port that was free a moment ago, for processes that cannot report the port they got; a new one each time. */
export async function freePort(host = '127.0.0.1'): Promise<number> {
  for (;;) {
    const port = FIRST + (next++ % COUNT)
    const server = createServer()
    const isFree = await new Promise<boolean>((resolve) => {
      server.once('error', () => resolve(false))
      server.listen(port, host, () => resolve(true))
    })
    if (!isFree) continue
    server.close()
    await once(server, 'close')
    return port
  }
}
