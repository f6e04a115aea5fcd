import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

const HERE = fileURLToPath(new URL('.', import.meta.url))

/** Installs the Node peers by their lockfile. Returns the reason when it fails. */
export function installPeers(): string | undefined {
  if (existsSync(`${HERE}/node_modules`)) return undefined
  const { error, status, stderr } = spawnSync('npm', ['ci', '--no-audit', '--no-fund', '--ignore-scripts'], {
    cwd: HERE,
    encoding: 'utf8',
  })
  return error === undefined && status === 0 ? undefined : (error?.message ?? stderr.trim())
}
