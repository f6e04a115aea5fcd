import { type ChildProcess, spawn } from 'node:child_process'
import { chmodSync, existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { forProfile } from './runtime/startup/memory-profile.ts'
import { sharedAddresses, sharedSecret } from './runtime/startup/shared-addresses.ts'

/**
 * `npm start`: runs the backend and, as soon as it is ready, the gateway, each in its own process. On SIGTERM, SIGINT, SIGHUP
 * and when the parent has ended, the gateway drains first, because admitted requests still need the backend. Only SIGTERM
 * implies a load balancer, so only then the gateway waits before it closes its listeners. A child that crashes after it was
 * ready is restarted. A child that ends earlier (invalid configuration, port in use), or with exit code 0, ends the other one,
 * and this process exits with the same code.
 */
const RESTART_MS = 500

/** Megabytes for young objects: enough that most objects of a request are dead before the collector copies them. */
const YOUNG = ['--min-semi-space-size=32', '--max-semi-space-size=32']

type Stopping = 'SIGTERM' | 'SIGINT'

interface Child {
  readonly name: string
  readonly flags: readonly string[]
  readonly script: string
  child: ChildProcess | undefined
}

// Files of both are for this user only. The default data directory is closed to other users, also when an earlier version left
// it open; a directory that the operator named stays as it is.
process.umask(0o077)
if (!process.env.GATEWAY_DATA_DIR && existsSync('data')) closeToOthers('data')

const extension = import.meta.url.endsWith('.ts') ? 'ts' : 'js'
const backend: Child = {
  name: 'backend',
  // The embedded database is WebAssembly. Not compiled a second time to run faster, it starts in two thirds of the time.
  flags: ['--liftoff-only'],
  script: `../backend/main.${extension}`,
  child: undefined,
}
const gateway: Child = { name: 'gateway', flags: YOUNG, script: `./main.${extension}`, child: undefined }
const backendReady = Promise.withResolvers<void>()
// The service is this process: systemd must not hear of its parts.
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
// The channel closes when the parent process ends, for whatever reason.
process.on('disconnect', () => (stopping ? undefined : void stop(0, 'SIGINT')))
await backendReady.promise
if (!stopping) launch(gateway)

function launch(part: Child): void {
  // The channel tells the child when this process ends, so that no child is left running.
  const given = { options: part.flags, env }
  const node = part === gateway ? forProfile(given) : given
  const child = spawn(
    process.execPath,
    [...process.execArgv, ...node.options, fileURLToPath(new URL(part.script, import.meta.url))],
    {
      env: node.env,
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
      // A process group of its own: Ctrl-C reaches only this process, which stops the children in order.
      detached: true,
    },
  )
  part.child = child
  let ready = false
  // The only message says that it listens.
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

/** Resolves to the child's exit code: 0 when it has ended before, or by the signal itself. */
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

function closeToOthers(directory: string): void {
  try {
    chmodSync(directory, 0o700)
  } catch (fault) {
    process.stderr.write(`${directory} cannot be closed to other users: ${(fault as Error).message}\n`)
  }
}
