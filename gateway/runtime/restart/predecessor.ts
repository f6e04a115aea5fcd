import type { SendHandle } from 'node:child_process'
import type { InheritedRequests } from '../../audit/open-trail.ts'
import type { Trail } from '../../audit/trail.ts'
import type { Revocations } from '../../auth/revocations.ts'
import type { IdempotencyKeys } from '../gateway-state.ts'
import type { Memories, PassedState, Places, ToPredecessor, ToSuccessor } from './messages.ts'
import type { ListenerName, ListeningSockets, PassedConnection, PassedSocket } from './sockets.ts'
import { TAKES_OVER } from './successor.ts'

export interface Inheritance {
  readonly state: PassedState
  readonly listeners: ListeningSockets<PassedSocket>
  readonly predecessor: Predecessor
}

/** Parts of this process that requests in flight at the old process still need. */
interface Followed {
  readonly trail: Trail
  readonly inherited: InheritedRequests | undefined
  readonly revocations: Pick<Revocations, 'otherProcess' | 'revoke'>
  readonly memories: Memories
  readonly keys: IdempotencyKeys
  /** The clock of `memories`. */
  readonly clock: () => number
  adopt(connection: PassedConnection): void
}

/** The parent of this process. */
export class Predecessor {
  readonly #listeners: Partial<Record<ListenerName, PassedSocket>> = {}
  readonly #inheritance = Promise.withResolvers<Inheritance>()
  readonly #gone = Promise.withResolvers<void>()
  #followed: Followed | undefined
  #isFree = false

  /** @returns undefined when this process was not started to take over */
  static find(): Predecessor | undefined {
    const takesOver = process.env[TAKES_OVER] !== undefined && process.send !== undefined
    delete process.env[TAKES_OVER]
    return takesOver ? new Predecessor() : undefined
  }

  constructor() {
    process.on('message', (message, handle) => this.#receive(message as ToSuccessor, handle))
    process.on('disconnect', () => this.#disconnected())
    // The parent may have ended while this program was loaded.
    if (!process.connected) this.#disconnected()
  }

  /** Says that the configuration is good. Resolves when the files are free. */
  inherit(places: Places): Promise<Inheritance> {
    this.#send({ type: 'prepared', places })
    return this.#inheritance.promise
  }

  faulty(faults: readonly string[]): Promise<void> {
    return this.#send({ type: 'faulty', faults })
  }

  /** This process serves from now on, also for requests in flight at the old process. */
  serve(followed: Followed): void {
    this.#followed = followed
    followed.revocations.otherProcess = (sid) => void this.#send({ type: 'revoked', sid })
    void this.#send({ type: 'serving' })
    if (!process.connected) this.#disconnected()
  }

  /** Resolves when the old process has ended, which sends its records first. */
  async over(hurry: Promise<void>): Promise<void> {
    void hurry.then(() => this.#send({ type: 'hurry' }))
    await this.#gone.promise
  }

  #send(message: ToPredecessor, socket?: PassedSocket): Promise<void> {
    return new Promise((resolve) => {
      if (!process.connected) resolve()
      else process.send?.(message, socket as unknown as SendHandle, {}, () => resolve())
    })
  }

  #receive(message: ToSuccessor, handle: unknown): void {
    const followed = this.#followed
    if (message.type === 'listener') {
      this.#listeners[message.name] = handle as PassedSocket
      void this.#send(message, handle as PassedSocket)
    } else if (message.type === 'state') {
      this.#isFree = true
      this.#inheritance.resolve({ state: message.state, listeners: this.#listeners, predecessor: this })
    } else if (followed === undefined) return
    else if (message.type === 'connection') followed.adopt({ ...message, socket: handle as PassedSocket })
    else if (message.type === 'records') this.#record(followed, message)
    else if (message.type === 'key') followed.keys.open().apply(message.key, this.#replyTo(message.id))
    else if (message.type === 'accepted')
      followed.memories[message.memory].apply(message.digest, followed.clock(), false)
    else if (message.type === 'delivered')
      followed.memories.guards.deliveries.end(message.delivery, message.isTaken)
    // Publishes the session too, because the old process may end while the shared store is away.
    else followed.revocations.revoke(message.sid)
  }

  #replyTo(id: number): (error?: Error) => void {
    return (error) => void this.#send({ type: 'recorded', id, fault: error?.message })
  }

  #record({ trail, inherited }: Followed, { id, lines }: Extract<ToSuccessor, { type: 'records' }>): void {
    const reply = this.#replyTo(id)
    const commit = inherited?.settle(lines)
    if (commit === undefined) trail.whenPendingWritten(reply)
    else commit.whenDone((error) => (error === undefined ? reply(error) : trail.whenPendingWritten(reply)))
  }

  /** Lets this process go on alone if the old one has given up the files. Otherwise ends this process. */
  #disconnected(): void {
    if (!this.#isFree) process.exit(1)
    if (this.#followed === undefined) return
    this.#followed.revocations.otherProcess = undefined
    this.#followed.inherited?.end()
    this.#followed.keys.table?.release()
    this.#followed.memories.guards.deliveries.release()
    this.#gone.resolve()
  }
}
