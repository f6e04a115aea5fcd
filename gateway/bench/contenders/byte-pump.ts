import { fileURLToPath } from 'node:url'
import { firstMessage, startChild } from '../child.ts'
import type { Contender } from '../contender.ts'

const PROGRAM = fileURLToPath(new URL('../pump-bytes.ts', import.meta.url))

/** What it costs Node to copy bytes at all. */
export const bytePump: Contender = {
  name: 'byte pump',
  work: 'nothing: two sockets piped into each other',
  authenticates: false,
  version: () => process.version,
  start: async ({ upstreamPort, cpus }) => {
    const child = startChild({ command: [process.execPath, PROGRAM, String(upstreamPort)], cpus, ipc: true })
    const { port } = await firstMessage<{ port: number }>(child)
    return { ports: [port], pids: [child.pid], tidy: () => {}, end: child.end }
  },
}
