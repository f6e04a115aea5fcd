import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { listening, startChild, versionOf } from '../child.ts'
import type { Contender, ContenderSetup, RunningContender } from '../contender.ts'
import { freePort } from '../unused-port.ts'

/** Gives the contender a redis-server, which GATEWAY_STORE names. The kernel chooses the server's processor. */
export function withStore(contender: Contender): Contender {
  return { ...contender, start: (setup) => start(contender, setup) }
}

async function start(contender: Contender, setup: ContenderSetup): Promise<RunningContender> {
  if (versionOf(['redis-server', '--version'], /v=(\S+)/) === undefined) {
    throw new Error('redis-server is not installed')
  }
  const port = await freePort()
  const dir = join(setup.dir, 'store')
  mkdirSync(dir)
  const store = startChild({
    command: ['redis-server', '--port', `${port}`, '--bind', '127.0.0.1', '--dir', dir, '--save', ''],
    cpus: undefined,
  })
  try {
    await listening(store, port)
    const gatewayEnv = { ...setup.gatewayEnv, GATEWAY_STORE: `redis://127.0.0.1:${port}` }
    const running = await contender.start({ ...setup, gatewayEnv })
    const end = async () => {
      await running.end()
      await store.end()
    }
    return { ...running, storePids: [store.pid], end }
  } catch (error) {
    await store.end()
    throw error
  }
}
