import type { LogLine } from '../testing/running-process.ts'
import { type TestGateway, until } from './running-gateway.ts'

/** Environment of a gateway whose memory can be measured. */
export const MEASURABLE = { NODE_OPTIONS: `--import ${new URL('held-probe.ts', import.meta.url).href}` }

/** Bytes that a gateway started `MEASURABLE` holds now, without garbage. */
export async function heldBytes(gateway: TestGateway): Promise<number> {
  const { child, lines } = gateway.process
  const isHeld = ({ msg }: LogLine) => msg === 'held'
  const before = lines.filter(isHeld).length
  child.kill('SIGUSR2')
  const line = await until(() => lines.filter(isHeld)[before])
  return Number(line.bytes)
}
