import { once } from 'node:events'
import { createServer, type ListenOptions, type Server } from 'node:net'

/**
 * The first port to try. The range is above the ports that `fetch` and browsers refuse. It is below the ports that systems assign
 * by themselves, so a free port stays free until somebody names it.
 */
const FIRST = 20_000
const COUNT = 12_000

/** A port that was free a moment ago, for processes that cannot report the port they got; a new one each time. */
export const freePort = freePorts(Math.floor(Math.random() * COUNT))

/** @returns a function that tries the ports of the range in turn, from the one at this index on */
export function freePorts(index: number): (host?: string) => Promise<number> {
  let next = index
  return async (host = '127.0.0.1') => {
    for (;;) {
      const port = FIRST + (next++ % COUNT)
      if (!(await isReserved(port))) continue
      const server = await listening({ port, host })
      if (server === undefined) continue
      server.close()
      await once(server, 'close')
      return port
    }
  }
}

/**
 * Reserves the port among all test processes of the machine until this process ends: on Linux by an abstract socket, elsewhere
 * not at all.
 */
async function isReserved(port: number): Promise<boolean> {
  if (process.platform !== 'linux') return true
  const mark = await listening({ path: `\0countersign test port ${port}` })
  mark?.unref()
  return mark !== undefined
}

/** @returns undefined when somebody else listens there */
async function listening(options: ListenOptions): Promise<Server | undefined> {
  const server = createServer()
  return new Promise((resolve) => {
    server.once('error', () => resolve(undefined))
    server.listen(options, () => resolve(server))
  })
}
