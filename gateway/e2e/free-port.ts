import { once } from 'node:events'
import { createServer } from 'node:net'

/**
 * Below the ports that systems give out by themselves, to a listener on port 0 and to a connection: what is free here
 * stays free until somebody asks for it by name. Above those that `fetch` and browsers refuse.
 */
const FIRST = 20_000
const COUNT = 12_000

let next = Math.floor(Math.random() * COUNT)

/** A port that was free a moment ago, for a process that cannot say which one it was given; another one each time. */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = FIRST + (next++ % COUNT)
    const server = createServer()
    const isFree = await new Promise<boolean>((resolve) => {
      server.once('error', () => resolve(false))
      server.listen(port, '127.0.0.1', () => resolve(true))
    })
    if (!isFree) continue
    server.close()
    await once(server, 'close')
    return port
  }
}
