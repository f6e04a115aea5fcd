import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import type { Contender, ContenderSetup, RunningContender } from '../contender.ts'
import { freePort } from '../unused-port.ts'

/** Several gateways on one port. They share only what the environment names. */
export function severalProcesses(count: number, contender: Contender): Contender {
  return { ...contender, start: (setup) => start(count, contender, setup) }
}

async function start(count: number, contender: Contender, setup: ContenderSetup): Promise<RunningContender> {
  const all: RunningContender[] = []
  const end = async () => {
    await Promise.all(all.map((one) => one.end()))
  }
  const port = await freePort()
  const gatewayEnv = { ...setup.gatewayEnv, GATEWAY_REUSE_PORT: 'true', GATEWAY_PORT: `${port}` }
  try {
    for (let i = 0; i < count; i++) {
      const dir = join(setup.dir, String(i))
      mkdirSync(dir)
      all.push(await contender.start({ ...setup, dir, gatewayEnv }))
    }
  } catch (error) {
    await end()
    throw error
  }
  return {
    ports: [port],
    pids: all.flatMap(({ pids }) => pids) as [number, ...number[]],
    tidy: () => {
      for (const one of all) one.tidy()
    },
    end,
  }
}
