import type { Exchange } from '../../exchange.ts'
import type { Gateway } from '../../gateway.ts'

/** What was told of each route. Bounded: names of headers that clients make up are told by their family. */
const TOLD = new WeakMap<object, Set<string>>()

/** Logs the first removal of each header by each route. @param removed names for the log */
export function tellRemoved(
  { log }: Pick<Gateway, 'log'>,
  { requestId, route }: Pick<Exchange, 'requestId' | 'route'>,
  removed: ReadonlySet<string>,
): void {
  if (route === undefined) return
  let told = TOLD.get(route)
  if (told === undefined) {
    told = new Set()
    TOLD.set(route, told)
  }
  for (const header of removed) {
    if (told.has(header)) continue
    told.add(header)
    log.info({ requestId, route: route.path, header }, 'a request header is removed')
  }
}
