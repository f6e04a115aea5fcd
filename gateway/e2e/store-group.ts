import type { IncomingMessage, ServerResponse } from 'node:http'
import { call } from './client.ts'
import { type GatewayOptions, startGateway, type TestGateway, until } from './running-gateway.ts'
import { startUpstream, type TestUpstream } from './test-upstream.ts'

export interface GroupOptions extends Omit<GatewayOptions, 'config' | 'dir'> {
  readonly store: string
  readonly gateways?: number
  /** Settings besides upstream and routes, for all gateways or by the index of one. */
  readonly config?: object | ((index: number) => object)
  /** The service. By default it responds with `{}`. */
  readonly respond?: (req: IncomingMessage, res: ServerResponse) => void
}

/** Gateways with one store and upstream. */
export interface StoreGroup {
  readonly upstream: TestUpstream
  readonly gateways: TestGateway[]
  /** Ports of ready gateways, as a load balancer would see them. */
  readonly ports: () => readonly number[]
  /** Kills a gateway and starts it again in its directory. It gets requests once it is ready. */
  restart(index: number): Promise<void>
  /** Waits until every gateway says that the store is there, or away. */
  storeIs(where: 'there' | 'away'): Promise<void>
  stop(): Promise<void>
}

export async function startGroup(options: GroupOptions): Promise<StoreGroup> {
  const { store, config = {}, env = {}, respond, ...rest } = options
  const upstream = await startUpstream((req, res) => {
    if (respond !== undefined) respond(req, res)
    else res.end('{}')
  })
  const start = (index: number, dir?: string) =>
    startGateway({
      ...rest,
      config: {
        upstream: upstream.url,
        routes: [{ path: '/*', auth: ['none'] }],
        ...(typeof config === 'function' ? config(index) : config),
      },
      env: { GATEWAY_STORE: store, ...env },
      ...(dir !== undefined && { dir }),
    })
  const gateways = await Promise.all(
    Array.from({ length: options.gateways ?? 3 }, (_, index) => start(index)),
  ).catch((error: unknown) => {
    upstream.close()
    throw error
  })
  const ready = new Set<TestGateway>()
  const whenReady = async (gateway: TestGateway) => {
    await until(async () => ((await readiness(gateway)).status === 200 ? true : undefined))
    ready.add(gateway)
  }
  await Promise.all(gateways.map(whenReady))
  return {
    upstream,
    gateways,
    ports: () => gateways.filter((gateway) => ready.has(gateway)).map(({ port }) => port),
    restart: async (index) => {
      const old = gateways[index] as TestGateway
      ready.delete(old)
      await old.end('SIGKILL')
      const next = await start(index, old.dir)
      gateways[index] = next
      await whenReady(next)
    },
    storeIs: async (where) => {
      const holds = async (gateway: TestGateway) =>
        (await readiness(gateway)).body.includes('the shared store is away') === (where === 'away')
      await until(async () => {
        // Looks at one after the other, because each may take seconds, then at all at once.
        for (const gateway of gateways) await until(async () => ((await holds(gateway)) ? true : undefined))
        const all = await Promise.all(gateways.map(holds))
        return all.every(Boolean) ? true : undefined
      })
    },
    stop: async () => {
      await Promise.all(gateways.map((gateway) => gateway.end('SIGKILL')))
      upstream.close()
    },
  }
}

function readiness({ adminUrl }: TestGateway) {
  return call(`${adminUrl}/readyz`)
}
