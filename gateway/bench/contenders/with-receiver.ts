import { fileURLToPath } from 'node:url'
import { firstMessage, startChild } from '../child.ts'
import type { Contender, ContenderSetup, RunningContender } from '../contender.ts'

const SINK = fileURLToPath(new URL('../otlp-sink.ts', import.meta.url))

/** Gives the contender a receiver of spans. The receiver's CPU is not counted, and the kernel chooses its processor. */
export function withReceiver(contender: Contender): Contender {
  return { ...contender, start: (setup) => start(contender, setup) }
}

async function start(contender: Contender, setup: ContenderSetup): Promise<RunningContender> {
  const sink = startChild({ command: [process.execPath, SINK], cpus: undefined, ipc: true })
  try {
    const { port } = await firstMessage<{ port: number }>(sink)
    const gatewayEnv = { ...setup.gatewayEnv, OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${port}` }
    const running = await contender.start({ ...setup, gatewayEnv })
    const end = async () => {
      await running.end()
      await sink.end()
    }
    return { ...running, end }
  } catch (error) {
    await sink.end()
    throw error
  }
}
