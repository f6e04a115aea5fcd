import { fileURLToPath } from 'node:url'
import { firstMessage, startChild } from '../child.ts'
import { type Contender, YOUNG_OBJECTS } from '../contender.ts'
import type { PumpSettings } from '../pump-bytes.ts'

const PROGRAM = fileURLToPath(new URL('../pump-bytes.ts', import.meta.url))

/** The cost of copying bytes in Node. */
export const bytePump: Contender = {
  name: 'byte pump',
  work: 'nothing: copies bytes between two sockets',
  authenticates: false,
  version: () => process.version,
  start: async ({ upstreamPort, tls, upstreamCaFile, cpus }) => {
    const settings: PumpSettings = { upstreamPort, tls, upstreamCaFile }
    const command = [process.execPath, ...YOUNG_OBJECTS, PROGRAM, JSON.stringify(settings)] as const
    const child = startChild({ command: [...command], cpus, ipc: true })
    const { port } = await firstMessage<{ port: number }>(child)
    return { ports: [port], pids: [child.pid], tidy: () => {}, end: child.end }
  },
}
