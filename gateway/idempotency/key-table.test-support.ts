import type { KeyJournalOptions } from './key-journal.ts'
import type { KeptResponse } from './key-record.ts'
import { type KeySecrets, secretsOf } from './key-secret.ts'
import { type Begun, callerOf, type HeldKey, type KeyedRequest, KeyTable } from './key-table.ts'

export { temporaryDirectory } from '../storage/temporary-directory.test-support.ts'

export const SECRETS: KeySecrets = secretsOf(['a secret of at least 32 characters'])
export const RESPONSE: KeptResponse = {
  status: 201,
  fields: 'Location: /transfers/1\r\n',
  body: '{"id":1}',
}
/** Has a fraction, as monotonic clocks have. */
export const NOW_MS = Date.UTC(2030, 0, 1) + 0.375
const DAY_MS = 86_400_000

export function request(key: string, more: Partial<KeyedRequest> = {}): KeyedRequest {
  return {
    ...{ key, caller: callerOf('user-1', 'app-1'), row: '/transfers', content: ['POST /transfers', '{}'] },
    ...{ requestId: `id-of-${key.replaceAll(' ', '-')}`, keepMs: DAY_MS, maxKeys: 100, resolves: false },
    ...more,
  }
}

export function openTable(
  directory: string,
  options: Partial<KeyJournalOptions> = {},
  time = { nowMs: NOW_MS },
) {
  const faults: string[] = []
  const table = new KeyTable({
    ...{ directory, secrets: SECRETS, syncs: false, clock: () => time.nowMs },
    onFault: (cause) => faults.push(cause),
    onRemoved: (cause) => faults.push(cause),
    ...options,
  })
  /** Begins a key, and flushes before and after. */
  const begin = (key: string, more?: Partial<KeyedRequest>): Begun => {
    let known: Begun | undefined
    table.flush()
    table.begin(request(key, more), (begun) => {
      known = begun
    })
    table.flush()
    if (known === undefined) throw new Error(`${key} is waited for`)
    return known
  }
  const held = (key: string, more?: Partial<KeyedRequest>): HeldKey => {
    const begun = begin(key, more)
    if (begun.outcome !== 'begun') throw new Error(`${key} is ${begun.outcome}`)
    return begun.held
  }
  const finish: KeyTable['finish'] = (held, outcome, run) => {
    table.finish(held, outcome, run)
    table.flush()
  }
  return {
    table,
    finish,
    time,
    faults,
    begin,
    held,
    outcome: (key: string, more?: Partial<KeyedRequest>) => begin(key, more).outcome,
  }
}
