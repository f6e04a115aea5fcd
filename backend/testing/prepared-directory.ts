import { chmodSync, cpSync, existsSync, mkdtempSync, readdirSync, renameSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { startBackendProcess } from './process.ts'

/** The OIDs of the template databases. They are two thirds of the files, and nobody reads them. */
const TEMPLATES = ['1', '4']

/**
 * Fills a new `directory` with the data of a backend's first start, which saves half of the CPU of a start. The first
 * process of a test run makes the data, and others copy it. Does nothing without `TEST_RUN_DIR`, which `npm test` sets.
 */
export async function prepareBackendDirectory(directory: string): Promise<void> {
  const run = process.env.TEST_RUN_DIR
  if (run === undefined) return
  const prepared = join(run, 'backend-data')
  if (!existsSync(prepared)) await prepare(run, prepared)
  cpSync(prepared, directory, { recursive: true })
  keepFromOthers(directory)
}

/** Node 26.0 gives copied directories the mode of new ones. The backend would replace keys that others can read. */
function keepFromOthers(directory: string): void {
  chmodSync(directory, 0o700)
  for (const entry of readdirSync(directory, { recursive: true, withFileTypes: true })) {
    if (entry.isDirectory()) chmodSync(join(entry.parentPath, entry.name), 0o700)
  }
}

async function prepare(run: string, prepared: string): Promise<void> {
  const mine = mkdtempSync(join(run, 'backend-data-'))
  const backend = startBackendProcess({ BACKEND_DATA_DIR: mine })
  await backend.listening
  backend.child.kill('SIGTERM')
  await backend.ended
  for (const template of TEMPLATES) rmSync(join(mine, 'cluster/base', template), { recursive: true })
  try {
    renameSync(mine, prepared)
  } catch (fault) {
    // Another process was first.
    if ((fault as NodeJS.ErrnoException).code !== 'ENOTEMPTY') throw fault
    rmSync(mine, { recursive: true })
  }
}
