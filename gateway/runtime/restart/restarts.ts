import type { Server } from 'node:http'
import type { Logger } from 'pino'
import type { Settings } from '../../config/settings.ts'
import { messageOf } from '../../terminal/printable.ts'
import { type Restarted, STEP_MS } from './control-socket.ts'
import type { HandOver } from './hand-over.ts'
import type { Places } from './messages.ts'
import { type NamedSocket, type PassedSocket, socketOf } from './sockets.ts'
import { Successor, SuccessorFailed } from './successor.ts'

export class CannotRestart extends Error {}

interface RestartParts {
  readonly settings: Settings
  readonly log: Logger
  readonly serving: { readonly handOver: HandOver | undefined }
  readonly admin: Server
  readonly predecessorIsHere: () => boolean
  readonly onSuspended: () => void
  readonly onBack: () => void
}

export class Restarts {
  readonly #parts: RestartParts
  readonly #replaced = Promise.withResolvers<Successor>()
  #successor: Successor | undefined
  #isStopping = false
  #isReplaced = false

  constructor(parts: RestartParts) {
    this.#parts = parts
  }

  get replaced(): Promise<Successor> {
    return this.#replaced.promise
  }

  /** Resolves when the other process serves. @throws CannotRestart; this process then serves as before */
  async restart(): Promise<Restarted> {
    const handOver = this.#checked()
    const { log, settings } = this.#parts
    log.info('restarting')
    const successor = new Successor()
    this.#successor = successor
    let heldMs: number
    try {
      const theirs = await within(STEP_MS, successor.prepared)
      const different = differenceOf(placesOf(settings), theirs)
      if (different !== undefined) throw new CannotRestart(different)
      heldMs = Math.round(await this.#handOver(handOver, successor))
    } catch (error) {
      await successor.end()
      this.#successor = undefined
      const cause = messageOf(error)
      log.error({ cause }, 'the restart failed')
      throw new CannotRestart(cause)
    }
    const pid = successor.pid as number
    log.info({ pid, heldMs }, 'restarted')
    this.#isReplaced = true
    this.#replaced.resolve(successor)
    return { pid, heldMs }
  }

  /** Called when this process is to end. @returns the process in its place, if any */
  async stop(): Promise<Successor | undefined> {
    this.#isStopping = true
    while (this.#successor !== undefined && !this.#isReplaced) {
      await this.#successor.end()
      await new Promise((resolve) => setImmediate(resolve))
    }
    return this.#successor
  }

  #checked(): HandOver {
    const { serving, predecessorIsHere } = this.#parts
    if (this.#isStopping) throw new CannotRestart('the gateway is being stopped')
    if (this.#successor !== undefined) throw new CannotRestart('a restart is under way')
    if (predecessorIsHere())
      throw new CannotRestart('the previous process still finishes its requests: try again later')
    const { handOver } = serving
    if (handOver === undefined) throw new CannotRestart('the gateway has not started yet: try again later')
    // With systemd a launcher may end: the service goes on with the new main process.
    if (process.send !== undefined && process.connected && process.env.NOTIFY_SOCKET === undefined)
      throw new CannotRestart(
        'the gateway was started by npm, `countersign run` or another program that ends with this process: stop and start that program',
      )
    if (process.pid === 1)
      throw new CannotRestart(
        'the gateway is process 1 of its container, which would end with it: start a second container, then stop this one',
      )
    const { obstacle } = handOver
    if (obstacle !== undefined) throw new CannotRestart(obstacle)
    return handOver
  }

  /** @returns the milliseconds in which nobody served @throws Error when the other process does not serve; this one goes on */
  async #handOver(handOver: HandOver, successor: Successor): Promise<number> {
    const { admin, onSuspended, onBack } = this.#parts
    const adminSocket = socketOf(admin)
    const sockets = handOver.sockets()
    const copies: PassedSocket[] = []
    const closeFrom = (at: number) => {
      for (const copy of copies.splice(at)) copy.close()
    }
    const all: NamedSocket[] = adminSocket === undefined ? sockets : [...sockets, ['admin', adminSocket]]
    try {
      for (const socket of all) copies.push(await within(STEP_MS, successor.give(socket)))
      const obstacle = this.#isStopping ? 'the gateway is being stopped' : handOver.obstacle
      if (obstacle !== undefined) throw new CannotRestart(obstacle)
    } catch (error) {
      closeFrom(0)
      throw error
    }
    const fromMs = performance.now()
    try {
      onSuspended()
      const state = await handOver.suspend()
      successor.send({ type: 'state', state })
      await within(STEP_MS, successor.serving)
    } catch (error) {
      // First, because two processes must never have the files.
      await successor.end()
      // The admin listener never closed, so it needs no copy.
      closeFrom(sockets.length)
      handOver.goOn(copies)
      onBack()
      throw error
    }
    const heldMs = performance.now() - fromMs
    closeFrom(0)
    admin.close()
    return heldMs
  }
}

/** A restart must not change these settings. */
export function placesOf(settings: Settings): Places {
  const { host, port, tls, adminHost, adminPort, dataDir, audit } = settings
  return { host, port, 'tls.port': tls?.port, adminHost, adminPort, dataDir, auditFile: audit.file }
}

function differenceOf(ours: Places, theirs: Places): string | undefined {
  const name = Object.keys(ours).find((key) => ours[key] !== theirs[key])
  if (name === undefined) return undefined
  return `${name} is ${ours[name] ?? 'not set'} and would be ${theirs[name] ?? 'not set'}: stop and start the gateway to change this`
}

function within<T>(ms: number, promise: Promise<T>): Promise<T> {
  const { promise: late, reject } = Promise.withResolvers<never>()
  const timer = setTimeout(
    () => reject(new SuccessorFailed(`the new process took longer than ${ms / 1000} s`)),
    ms,
  )
  return Promise.race([promise, late]).finally(() => clearTimeout(timer))
}
