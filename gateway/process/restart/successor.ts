import { type ChildProcess, type SendHandle, spawn } from 'node:child_process'
import { Commit } from '../../audit/commit/commit.ts'
import type { Places, ToPredecessor, ToSuccessor } from './messages.ts'
import type { ListenerName, PassedSocket } from './sockets.ts'

/** In the environment of a process that takes over from its parent. */
export const TAKES_OVER = 'COUNTERSIGN_TAKES_OVER'

/** Why the other process could not take over: its faults, one a line. */
export class SuccessorFailed extends Error {}

/** The process that takes over from this one: the same command in the same environment, as the files are now. */
export class Successor {
  readonly #child: ChildProcess
  readonly #listeners = new Map<ListenerName, PassedSocket>()
  readonly #prepared = Promise.withResolvers<Places>()
  readonly #serving = Promise.withResolvers<void>()
  readonly #unrecorded = new Map<number, Commit>()
  #lastId = 0
  #faults: readonly string[] = []
  #whenListener = () => {}
  /** A session has ended there. */
  onRevoked: (sid: string) => void = () => {}
  /** It is being stopped, or has ended. */
  onHurry: () => void = () => {}

  constructor() {
    this.#child = spawn(process.execPath, [...process.execArgv, ...process.argv.slice(1)], {
      env: { ...process.env, [TAKES_OVER]: '1' },
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
      // It lives on when this process and its group have ended.
      detached: true,
    })
    for (const each of [this.#prepared, this.#serving]) each.promise.catch(() => {})
    this.#child.on('message', (message, handle) => this.#receive(message as ToPredecessor, handle))
    this.#child.on('error', (error) => this.#ended(error.message))
    this.#child.on('exit', (code, signal) => this.#ended(`it ended with ${signal ?? `exit code ${code}`}`))
  }

  get pid(): number | undefined {
    return this.#child.pid
  }

  /** Resolves when its configuration is read and valid. @throws SuccessorFailed */
  prepared(): Promise<Places> {
    return this.#prepared.promise
  }

  /** Resolves when it serves. @throws SuccessorFailed */
  serving(): Promise<void> {
    return this.#serving.promise
  }

  /** Gives it a listening socket. Resolves to a copy that does not listen, to go back to. */
  async pass(name: ListenerName, socket: PassedSocket): Promise<PassedSocket> {
    this.send({ type: 'listener', name }, socket)
    for (;;) {
      const copy = this.#listeners.get(name)
      if (copy !== undefined) return copy
      await Promise.race([
        new Promise<void>((resolve) => {
          this.#whenListener = resolve
        }),
        this.#serving.promise,
      ])
    }
  }

  /** @param sent called when it is on its way, or never will be. */
  send(message: ToSuccessor, socket?: PassedSocket, sent: () => void = () => {}): void {
    if (this.#child.connected) this.#child.send(message, socket as unknown as SendHandle, {}, sent)
    else sent()
  }

  /** Has it write audit records. */
  record(lines: readonly string[]): Commit {
    const commit = new Commit()
    const id = ++this.#lastId
    this.#unrecorded.set(id, commit)
    if (this.#child.connected) this.send({ type: 'records', id, lines })
    else setImmediate(() => this.#recorded(id, 'the process that has the audit trail has ended'))
    return commit
  }

  /** Ends it, at once and however it feels. Resolves when it has gone. */
  async end(): Promise<void> {
    const { exitCode, signalCode, pid } = this.#child
    if (pid === undefined || exitCode !== null || signalCode !== null) return
    const gone = new Promise((resolve) => this.#child.once('exit', resolve))
    this.#child.kill('SIGKILL')
    await gone
  }

  #receive(message: ToPredecessor, handle: unknown): void {
    switch (message.type) {
      case 'faulty':
        this.#faults = message.faults
        break
      case 'prepared':
        this.#prepared.resolve(message.places)
        break
      case 'listener':
        this.#listeners.set(message.name, handle as PassedSocket)
        this.#whenListener()
        break
      case 'serving':
        this.#serving.resolve()
        break
      case 'recorded':
        this.#recorded(message.id, message.fault)
        break
      case 'revoked':
        this.onRevoked(message.sid)
        break
      default:
        this.onHurry()
    }
  }

  #recorded(id: number, fault: string | undefined): void {
    const commit = this.#unrecorded.get(id)
    this.#unrecorded.delete(id)
    commit?.finish(fault === undefined ? undefined : new Error(fault))
  }

  #ended(how: string): void {
    const error = new SuccessorFailed(this.#faults.length > 0 ? this.#faults.join('\n') : how)
    this.#prepared.reject(error)
    this.#serving.reject(error)
    for (const id of [...this.#unrecorded.keys()]) this.#recorded(id, error.message)
    this.onHurry()
  }
}
