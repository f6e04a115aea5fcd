import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { connect } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { familyOf } from './kernel.ts'

const START_MS = 20_000
/** The time between SIGINT and SIGKILL. */
const END_MS = 5_000

const running = new Set<ChildProcess>()
process.on('exit', () => {
  for (const { pid } of running) if (pid !== undefined) killFamily(pid)
})

interface ChildOptions {
  readonly command: readonly [string, ...string[]]
  readonly env?: Readonly<Record<string, string>>
  /** Processors, as taskset(1) takes them. */
  readonly cpus: string | undefined
  /** File descriptor for standard output, which is dropped by default. */
  readonly stdout?: number
  /** Opens a channel to a Node program. */
  readonly ipc?: boolean
}

export interface Child {
  readonly process: ChildProcess
  readonly pid: number
  said(): string
  /** Sends SIGINT, on which a gateway skips its grace, and after 5 s SIGKILL. Resolves when the program has ended. */
  end(): Promise<void>
}

/** Starts a program with this environment, PATH and HOME. Throws when it cannot be started. */
export function startChild(options: ChildOptions): Child {
  // The program gets taskset's process id.
  const pinned = options.cpus === undefined || !hasTaskset() ? [] : ['taskset', '-c', options.cpus]
  const [program, ...args] = [...pinned, ...options.command] as [string, ...string[]]
  const child = spawn(program, args, {
    // Keeps Node from measuring the program's coverage.
    env: { PATH: process.env.PATH, HOME: process.env.HOME, NODE_V8_COVERAGE: '', ...options.env },
    stdio: ['ignore', options.stdout ?? 'ignore', 'pipe', ...(options.ipc === true ? ['ipc' as const] : [])],
  })
  const { pid } = child
  if (pid === undefined) throw new Error(`cannot start ${program}`)
  running.add(child)
  let said = ''
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    said = (said + text).slice(-4000)
  })
  const ended = once(child, 'exit').then(() => running.delete(child))
  const end = async () => {
    child.kill('SIGINT')
    const hurry = setTimeout(() => killFamily(pid), END_MS)
    await ended
    clearTimeout(hurry)
  }
  return { process: child, pid, said: () => said, end }
}

/** Waits for the channel's first message. Rejects when the program ends before. */
export async function firstMessage<T>(child: Child): Promise<T> {
  const end = once(child.process, 'exit').then(() => Promise.reject(new Error(lastWordsOf(child))))
  const [message] = (await Promise.race([once(child.process, 'message'), end])) as [T]
  return message
}

/** Waits until connections are accepted. Rejects after 20 seconds, or when the program ends before. */
export async function listening(child: Child, port: number): Promise<void> {
  const deadline = performance.now() + START_MS
  while (performance.now() < deadline) {
    if (child.process.exitCode !== null || child.process.signalCode !== null) {
      throw new Error(lastWordsOf(child))
    }
    if (await canConnect(port)) return
    await sleep(20)
  }
  throw new Error(`does not listen after ${START_MS} ms: ${child.said()}`)
}

/** The version that a program prints; undefined when it is not installed. */
export function versionOf(command: readonly [string, ...string[]], pattern: RegExp): string | undefined {
  const [program, ...args] = command
  const { error, stdout, stderr } = spawnSync(program, args, { encoding: 'utf8' })
  return error === undefined ? (pattern.exec(stdout + stderr)?.[1] ?? 'unknown') : undefined
}

/** Kills the process and its children, which a killed master would leave running. */
function killFamily(pid: number): void {
  for (const member of familyOf(pid)) {
    try {
      process.kill(member, 'SIGKILL')
    } catch {
      // It has ended already.
    }
  }
}

function lastWordsOf(child: Child): string {
  return `ended before it served: ${child.said().trim().slice(0, 500)}`
}

async function canConnect(port: number): Promise<boolean> {
  const socket = connect({ host: '127.0.0.1', port })
  try {
    await once(socket, 'connect')
    return true
  } catch {
    return false
  } finally {
    socket.destroy()
  }
}

let taskset: boolean | undefined
function hasTaskset(): boolean {
  taskset ??= versionOf(['taskset', '--version'], /(\S+)$/) !== undefined
  return taskset
}
