import type { Contender } from './contender.ts'
import { ratelimit } from './contenders/ratelimit.ts'
import { severalProcesses } from './contenders/several-processes.ts'
import { withStore } from './contenders/with-store.ts'
import type { Entry, Scenario } from './scenarios.ts'

/**
 * The gateway with a store first, so that the rest is compared with it.
 *
 * @param of.others gateways of other trees
 * @param of.ratelimit the program of envoyproxy/ratelimit
 */
export function storedEntries(of: {
  readonly own: Contender
  readonly others: readonly Contender[]
  readonly ratelimit: string
}): readonly Entry[] {
  return [
    entry('gateway with store', withStore(of.own)),
    entry('gateway with memory', of.own),
    ...of.others.map((one) => entry(`${one.name}, with store`, withStore(one))),
    entry('envoyproxy/ratelimit', withStore(ratelimit(of.ratelimit))),
  ]
}

/** Threads with copies of all counts against as many processes with a store: each counts exactly. */
export function workersOrStore(gateway: Contender) {
  const processes = (count: number, name: string): Entry => ({
    ...entry(name, withStore(severalProcesses(count, gateway))),
    programs: count,
  })
  const workers = (count: number): Entry => ({
    ...entry(`gateway, ${count} workers`, gateway),
    env: { GATEWAY_WORKERS: `${count}` },
    programs: count,
  })
  const four = 'four gateways, one store'
  return {
    entries: [processes(2, 'two gateways, one store'), workers(2), processes(4, four), workers(4)],
    references: [four],
    pinned: false,
    starts: 3,
    loads: 'rates',
  } satisfies Partial<Scenario>
}

function entry(name: string, contender: Contender): Entry {
  return { name, contender, env: {}, programs: 1 }
}
