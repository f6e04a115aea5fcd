import { cpSync, existsSync, mkdtempSync, renameSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { startBackendProcess } from './process.ts'

/**
 * Fills `directory` (which must not exist) with what the first start of the backend leaves in a data directory, for tests
 * that are not about a first start: to begin there saves half of the CPU of a start. The first process of a test run that
 * asks makes it, all others copy. Without `TEST_RUN_DIR`, which `npm test` sets, it does nothing.
 */
export async function prepareBackendDirectory(directory: string): Promise<void> {
  const run = process.env.TEST_RUN_DIR
  if (run === undefined) return
  const prepared = join(run, 'backend')
  if (!existsSync(prepared)) await prepare(run, prepared)
  cpSync(prepared, directory, { recursive: true })
}

async function prepare(run: string, prepared: string): Promise<void> {
  const mine = mkdtempSync(join(run, 'backend-'))
  const backend = startBackendProcess({ BACKEND_DATA_DIR: mine })
  await backend.listening
  backend.child.kill('SIGTERM')
  await backend.ended
  try {
    renameSync(mine, prepared)
  } catch (fault) {
    // Another process was first.
    if ((fault as NodeJS.ErrnoException).code !== 'ENOTEMPTY') throw fault
    rmSync(mine, { recursive: true })
  }
}
