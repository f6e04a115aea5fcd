import type { LogLine } from './child-process.ts'
import { type TestGateway, until } from './running-gateway.ts'

/** What a gateway must be started with so that it can be asked how much memory it holds. */
export const MEASURABLE = { NODE_OPTIONS: `--import ${new URL('held-probe.ts', import.meta.url).href}` }

/** Bytes that a gateway started `MEASURABLE` holds at this moment, garbage not included. */
export async function heldBytes(gateway: TestGateway): Promise<number> {
  const { child, lines } = gateway.process
  const isHeld = ({ msg }: LogLine) => msg === 'held'
  const before = lines.filter(isHeld).length
  child.kill('SIGUSR2')
  const line = await until(() => lines.filter(isHeld)[before])
  return Number(line.bytes)
}
