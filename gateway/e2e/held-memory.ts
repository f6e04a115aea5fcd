import type { LogLine } from '../testing/running-process.ts'
import { type TestGateway, until } from './running-gateway.ts'

/** Makes a gateway's memory measurable. */
export const MEASURABLE = { NODE_OPTIONS: `--import ${new URL('held-probe.ts', import.meta.url).href}` }

/** Bytes that a gateway with `MEASURABLE` holds, without garbage. */
export async function heldBytes(gateway: TestGateway): Promise<number> {
  const { child, lines } = gateway.process
  const isHeld = ({ msg }: LogLine) => msg === 'held'
  const before = lines.filter(isHeld).length
  child.kill('SIGUSR2')
  const line = await until(() => lines.filter(isHeld)[before])
  return Number(line.bytes)
}
