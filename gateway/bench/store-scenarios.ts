import type { Contender } from './contender.ts'
import { ratelimit } from './contenders/ratelimit.ts'
import { severalProcesses } from './contenders/several-processes.ts'
import { withStore } from './contenders/with-store.ts'
import type { Entry, Scenario } from './scenarios.ts'

/**
 * The gateway with a store comes first, to be compared with the rest.
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

export function gatewaysWithStore(gateway: Contender) {
  const processes = (count: number, name: string): Entry => ({
    ...entry(name, withStore(severalProcesses(count, gateway))),
    programs: count,
  })
  const one = 'one gateway with store'
  return {
    entries: [
      processes(1, one),
      processes(2, 'two gateways, one store'),
      processes(4, 'four gateways, one store'),
    ],
    references: [one],
    pinned: false,
    starts: 3,
    loads: 'saturation',
  } satisfies Partial<Scenario>
}

function entry(name: string, contender: Contender): Entry {
  return { name, contender, env: {}, programs: 1 }
}
