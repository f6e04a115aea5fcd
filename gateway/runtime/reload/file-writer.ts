import { readFileSync, statSync } from 'node:fs'
import type { FileWriter } from '../../audit/config-change-records.ts'

/** Who may have written a file last: what the system says of it now. Undefined when it has gone meanwhile. */
export function writerOf(file: string, accounts = '/etc/passwd'): FileWriter | undefined {
  try {
    const { uid, mtime } = statSync(file)
    return { owner: { uid, name: accountName(uid, accounts) }, modified: mtime.toISOString() }
  } catch {
    return undefined
  }
}

/** Undefined for accounts that another machine keeps, and in images that have no list of them. */
function accountName(uid: number, accounts: string): string | undefined {
  try {
    const lines = readFileSync(accounts, 'utf8').split('\n')
    return lines.map((line) => line.split(':')).find(([, , id]) => id === String(uid))?.[0]
  } catch {
    return undefined
  }
}
