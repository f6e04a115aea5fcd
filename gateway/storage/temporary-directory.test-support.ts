import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** A directory that is removed when the test or the suite ends. Hooks that are made later run after that. */
export function temporaryDirectory(t: { after(remove: () => void): void }): string {
  const directory = mkdtempSync(join(tmpdir(), 'countersign-'))
  // A thread of the audit trail may still make files in it.
  t.after(() => rmSync(directory, { recursive: true, force: true, maxRetries: 10, retryDelay: 50 }))
  return directory
}
