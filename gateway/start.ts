import { type ChildProcess, spawn } from 'node:child_process'
import { chmodSync, existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { forProfile } from './runtime/startup/memory-profile.ts'
import { sharedAddresses, sharedSecret } from './runtime/startup/shared-addresses.ts'

/**
 * `npm start`: runs the backend, then the gateway. The gateway ends first, because admitted requests need the backend.
 * Only SIGTERM makes the gateway wait for a load balancer. A child that crashes once ready is restarted.
 */

const RESTART_MS = 500
/** A young generation so large that most objects of a request are dead before V8's collector copies them. */
const YOUNG = ['--min-semi-space-size=32', '--max-semi-space-size=32']

type Stopping = 'SIGTERM' | 'SIGINT'

interface Child {
  readonly name: string
  readonly flags: readonly string[]
  readonly script: string
  child: ChildProcess | undefined
}

// Files are for this user only. An earlier version left `data` open to others.
process.umask(0o077)
if (!process.env.GATEWAY_DATA_DIR && existsSync('data')) {
  try {
    chmodSync('data', 0o700)
  } catch (fault) {
    process.stderr.write(`the directory data cannot be closed to other users: ${(fault as Error).message}\n`)
  }
}

const extension = import.meta.url.endsWith('.ts') ? 'ts' : 'js'
const backend: Child = {
  name: 'backend',
  // The embedded database is WebAssembly, which starts faster without a second compilation.
  flags: ['--liftoff-only'],
  script: `../backend/main.${extension}`,
  child: undefined,
}
const gateway: Child = { name: 'gateway', flags: YOUNG, script: `./main.${extension}`, child: undefined }
const backendReady = Promise.withResolvers<void>()
// For systemd this process is the service, so the children must not report to systemd.
const env = {
  ...process.env,
  ...sharedAddresses(process.env),
  ...secretOrExit(),
  NOTIFY_SOCKET: undefined,
}
let stopping = false

for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) {
  const passedOn = signal === 'SIGTERM' ? 'SIGTERM' : 'SIGINT'
  // A second signal tells the gateway to hurry.
  process.on(signal, () => (stopping ? gateway.child?.kill(passedOn) : void stop(0, passedOn)))
}
if (process.send === undefined || process.connected) launch(backend)
else process.exit(0)
// The channel closes whenever the parent process ends.
process.on('disconnect', () => (stopping ? undefined : void stop(0, 'SIGINT')))
await backendReady.promise
if (!stopping) launch(gateway)

function launch(part: Child): void {
  const given = { options: part.flags, env }
  const node = part === gateway ? forProfile(given) : given
  const child = spawn(
    process.execPath,
    [...process.execArgv, ...node.options, fileURLToPath(new URL(part.script, import.meta.url))],
    {
      env: node.env,
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
      // Ctrl-C reaches only this process, which stops the children in order.
      detached: true,
    },
  )
  part.child = child
  let ready = false
  // Its only message says that it listens.
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
    process.stderr.write(`${part.name} ended with ${signal ?? `exit code ${code}`}: it is started again\n`)
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

/** @returns 0 if the part ended before or by the signal */
function end(part: Child, asked: Stopping): Promise<number> {
  const { child } = part
  if (child === undefined) return Promise.resolve(0)
  return new Promise((resolve) => {
    child.once('exit', (code, signal) => resolve(signal === asked ? 0 : (code ?? 1)))
    child.kill(asked)
  })
}

function secretOrExit(): ReturnType<typeof sharedSecret> {
  try {
    return sharedSecret(process.env)
  } catch (fault) {
    const directory = process.env.GATEWAY_DATA_DIR || 'data'
    const cause = (fault as Error).message
    process.stderr.write(`cannot start: a secret cannot be made in ${directory}: ${cause}\n`)
    process.exit(1)
  }
}
