import { type ChildProcess, type SendHandle, spawn } from 'node:child_process'
import { Commit } from '../../audit/commit/commit.ts'
import type { FinishedKey } from '../../idempotency/key-table.ts'
import type { Places, ToPredecessor, ToSuccessor } from './messages.ts'
import type { NamedSocket, PassedConnection, PassedSocket } from './sockets.ts'

/** Marks a process that takes over from its parent. */
export const TAKES_OVER = 'COUNTERSIGN_TAKES_OVER'

export class SuccessorFailed extends Error {}

export class Successor {
  readonly #child: ChildProcess
  readonly #prepared = Promise.withResolvers<Places>()
  readonly #serving = Promise.withResolvers<void>()
  readonly #hurry = Promise.withResolvers<void>()
  /** Resolves when the process is gone. Messages that wait behind an untaken socket are then never sent. */
  readonly #gone = Promise.withResolvers<void>()
  /** Commits that the process has not acknowledged. */
  readonly #commits = new Map<number, Commit>()
  #lastRecordsId = 0
  #faults: readonly string[] = []
  #onCopy: (copy: PassedSocket) => void = () => {}
  onRevoked: (sid: string) => void = () => {}

  constructor() {
    this.#child = spawn(process.execPath, [...process.execArgv, ...process.argv.slice(1)], {
      env: { ...process.env, [TAKES_OVER]: '1' },
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
      // The new process outlives this process and its group.
      detached: true,
    })
    for (const each of [this.#prepared, this.#serving]) each.promise.catch(() => {})
    this.#child.on('message', (message, handle) => this.#receive(message as ToPredecessor, handle))
    this.#child.on('error', (error) => this.#ended(error.message))
    this.#child.on('exit', (code, signal) =>
      this.#ended(`the new process ended with ${signal ?? `exit code ${code}`}`),
    )
  }

  get pid(): number | undefined {
    return this.#child.pid
  }

  /** Resolves when the new process has read a valid configuration; rejects with SuccessorFailed. */
  get prepared(): Promise<Places> {
    return this.#prepared.promise
  }

  get serving(): Promise<void> {
    return this.#serving.promise
  }

  /** Resolves when the new process is being stopped, or has ended. */
  get hurry(): Promise<void> {
    return this.#hurry.promise
  }

  /** Call it for one socket at a time. Resolves to a copy, for listening again. @throws SuccessorFailed */
  async give([name, socket]: NamedSocket): Promise<PassedSocket> {
    const copy = new Promise<PassedSocket>((resolve) => {
      this.#onCopy = resolve
    })
    this.send({ type: 'listener', name }, socket)
    // `serving` fails when the process ends, and resolves only after it has all sockets.
    await Promise.race([copy, this.#serving.promise])
    return copy
  }

  /** @param sent called when the connection is on its way, or never will be. */
  pass({ socket, ...rest }: PassedConnection, sent: () => void): void {
    this.send({ type: 'connection', ...rest }, socket, sent)
  }

  send(message: ToSuccessor, socket?: PassedSocket, sent: () => void = () => {}): void {
    if (this.#child.connected) this.#child.send(message, socket as unknown as SendHandle, {}, sent)
    else sent()
  }

  /** Resolves when the message is on its way, or never will be. */
  tell(message: ToSuccessor): Promise<void> {
    const sent = new Promise<void>((resolve) => this.send(message, undefined, resolve))
    return Promise.race([sent, this.#gone.promise])
  }

  record(lines: readonly string[]): Commit {
    return this.#committed((id) => ({ type: 'records', id, lines }))
  }

  finishKey(key: FinishedKey): Commit {
    return this.#committed((id) => ({ type: 'key', id, key }))
  }

  #committed(messageOf: (id: number) => ToSuccessor): Commit {
    const commit = new Commit()
    const id = ++this.#lastRecordsId
    this.#commits.set(id, commit)
    if (this.#child.connected) this.send(messageOf(id))
    else setImmediate(() => this.#recorded(id, 'the process that has the audit trail has ended'))
    return commit
  }

  async end(): Promise<void> {
    const { exitCode, signalCode, pid } = this.#child
    if (pid === undefined || exitCode !== null || signalCode !== null) return
    const gone = new Promise((resolve) => this.#child.once('exit', resolve))
    this.#child.kill('SIGKILL')
    await gone
  }

  #receive(message: ToPredecessor, handle: unknown): void {
    if (message.type === 'faulty') this.#faults = message.faults
    else if (message.type === 'prepared') this.#prepared.resolve(message.places)
    else if (message.type === 'listener') this.#onCopy(handle as PassedSocket)
    else if (message.type === 'serving') this.#serving.resolve()
    else if (message.type === 'recorded') this.#recorded(message.id, message.fault)
    else if (message.type === 'revoked') this.onRevoked(message.sid)
    else this.#hurry.resolve()
  }

  #recorded(id: number, fault: string | undefined): void {
    const commit = this.#commits.get(id)
    this.#commits.delete(id)
    commit?.finish(fault === undefined ? undefined : new Error(fault))
  }

  #ended(how: string): void {
    const error = new SuccessorFailed(this.#faults.length > 0 ? this.#faults.join('\n') : how)
    this.#prepared.reject(error)
    this.#serving.reject(error)
    for (const id of [...this.#commits.keys()]) this.#recorded(id, error.message)
    this.#gone.resolve()
    this.#hurry.resolve()
  }
}
