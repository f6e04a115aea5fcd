import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { type Command, CommandFault, EXIT } from './command.ts'

/** A minute for a running backend, the rest for a database that must be opened. */
const TIMEOUT_MS = 120_000
const EXTENSION = import.meta.url.endsWith('.ts') ? 'ts' : 'js'
const PROGRAM = fileURLToPath(new URL(`../../backend/identity/rotate-keys.${EXTENSION}`, import.meta.url))

export const command: Command = {
  about: [
    'Replaces the signing keys of the demo backend. Tokens signed before stay valid until they expire. The gateway fetches new keys of issuers by itself.',
    'Other secrets: the gateway reads a secret file again when it changes. Only the password and the key of the shared store, the headers of tracing and the seal key need a restart.',
  ],
  examples: [['countersign keys rotate', 'the keys of the backend in this checkout']],
  fault: 'there is no backend here, or its keys cannot be written',
  run() {
    if (!existsSync(PROGRAM)) {
      throw new CommandFault(
        'there is no backend here, and the gateway has no signing keys of its own: rotate them at the issuer of your tokens',
      )
    }
    const { status, error } = spawnSync(process.execPath, [PROGRAM], {
      stdio: 'inherit',
      timeout: TIMEOUT_MS,
    })
    if (error !== undefined) {
      const hangs = (error as NodeJS.ErrnoException).code === 'ETIMEDOUT'
      const late = `not rotated within ${TIMEOUT_MS / 1000} s: the backend or its database hangs`
      throw new CommandFault(hangs ? late : `${PROGRAM} cannot be started: ${error.message}`)
    }
    return status ?? EXIT.fault
  },
}
