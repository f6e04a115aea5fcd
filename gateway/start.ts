import { type ChildProcess, spawn } from 'node:child_process'
import { chmodSync, existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { sharedSecret } from './process/shared-secret.ts'

/**
 * `npm start`: the backend and, as soon as it answers, the gateway beside it, each in a process of its own. On SIGTERM,
 * SIGINT, when its terminal is closed or its parent is gone, the gateway drains first, because what it has admitted still
 * needs the backend; only after SIGTERM is there somebody who balances load, and a grace. A child that crashes after it was
 * ready is started again; one that ends before (a bad configuration, a port in use), or in good order, ends the other, and
 * its exit code is ours.
 */
const RESTART_MS = 500

/** Room for young objects: a request is over before it is full, so that little of it is ever copied. Megabytes. */
const YOUNG = ['--min-semi-space-size=32', '--max-semi-space-size=32']

type Stopping = 'SIGTERM' | 'SIGINT'

interface Part {
  readonly name: string
  readonly flags: readonly string[]
  readonly script: string
  child: ChildProcess | undefined
}

// Of what the two keep nothing is for other users of the machine. The default directory is ours alone, also one that an
// earlier version left open; a directory that the operator named stays as it is.
process.umask(0o077)
if (!process.env.GATEWAY_DATA_DIR && existsSync('data')) closeToOthers('data')

const extension = import.meta.url.endsWith('.ts') ? 'ts' : 'js'
const backend: Part = { name: 'backend', flags: [], script: `../backend/main.${extension}`, child: undefined }
const gateway: Part = { name: 'gateway', flags: YOUNG, script: `./main.${extension}`, child: undefined }
const backendReady = Promise.withResolvers<void>()
const env = { ...process.env, ...sharedSecret(process.env) }
let stopping = false

for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) {
  const passedOn = signal === 'SIGTERM' ? 'SIGTERM' : 'SIGINT'
  // Once more is for the gateway: it knows what being in a hurry means.
  process.on(signal, () => (stopping ? gateway.child?.kill(passedOn) : void stop(0, passedOn)))
}
if (process.send === undefined || process.connected) launch(backend)
else process.exit(0)
// The channel ends with the process that started this one, however that one ended.
process.on('disconnect', () => (stopping ? undefined : void stop(0, 'SIGINT')))
await backendReady.promise
if (!stopping) launch(gateway)

function launch(part: Part): void {
  // The channel tells a child when this process dies, however it dies, so that none is left behind.
  const child = spawn(
    process.execPath,
    [...process.execArgv, ...part.flags, fileURLToPath(new URL(part.script, import.meta.url))],
    {
      env,
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
      // Its own process group: Ctrl-C in a terminal reaches this process alone, which ends the children in their order.
      detached: true,
    },
  )
  part.child = child
  let ready = false
  // The one message there is: that it listens.
  child.once('message', () => {
    ready = true
    if (part === backend) backendReady.resolve()
  })
  child.on('exit', (code, signal) => {
    part.child = undefined
    if (stopping) return
    if (code === 0 || !ready) {
      void stop(code ?? 1, 'SIGINT')
      return
    }
    process.stderr.write(`${part.name} ended with ${signal ?? `exit code ${code}`}, starting it again\n`)
    setTimeout(() => {
      if (!stopping) launch(part)
    }, RESTART_MS)
  })
}

async function stop(exitCode: number, signal: Stopping): Promise<void> {
  stopping = true
  const worst = Math.max(exitCode, await end(gateway, signal))
  process.exit(Math.max(worst, await end(backend, signal)))
}

/** Resolves to the child's exit code; one that has ended already, or had not yet begun to listen for it, counts as 0. */
function end(part: Part, asked: Stopping): Promise<number> {
  const { child } = part
  if (child === undefined) return Promise.resolve(0)
  return new Promise((resolve) => {
    child.once('exit', (code, signal) => resolve(signal === asked ? 0 : (code ?? 1)))
    child.kill(asked)
  })
}

function closeToOthers(directory: string): void {
  try {
    chmodSync(directory, 0o700)
  } catch (fault) {
    process.stderr.write(`others may look into ${directory}: ${(fault as Error).message}\n`)
  }
}
