import type { LastGoodKeys } from '../auth/keys/jwks.ts'
import type { Heir, ServingThread } from '../process/restart/serving-thread.ts'
import {
  type ListeningSocket,
  type NamedSocket,
  type PassedSocket,
  peerOfSocket,
  socketOfThread,
} from '../process/restart/sockets.ts'
import type { ConnectionOfThread, HandOverCommand, HandOverMessage } from './worker-messages.ts'

/**
 * A worker, as the main thread hands it over: what it says and is told goes through messages. The messages of a worker that has
 * ended are still read, but its descriptors are closed, or others have them.
 */
export class WorkerThread implements ServingThread {
  readonly #post: (command: HandOverCommand | { readonly type: 'hurry' }) => void
  #descriptors: readonly NamedSocket<ListeningSocket>[] = []
  /** Made of the descriptors when they are first asked for. */
  #sockets: readonly NamedSocket[] | undefined
  #suspended = Promise.withResolvers<readonly LastGoodKeys[]>()
  readonly #left = Promise.withResolvers<void>()
  #heir: Heir | undefined
  #hasEnded = false

  constructor(post: (command: HandOverCommand | { readonly type: 'hurry' }) => void) {
    this.#post = post
  }

  /** @throws Error when the worker has ended */
  sockets(): NamedSocket[] {
    this.#sockets ??= this.#descriptors.map(([name, { fd }]) => [name, socketOfThread(fd)])
    return [...this.#sockets]
  }

  suspend(): Promise<readonly LastGoodKeys[]> {
    this.#suspended = Promise.withResolvers()
    if (this.#hasEnded) this.ended()
    else this.#post({ type: 'suspend' })
    return this.#suspended.promise
  }

  goOn(copies: readonly PassedSocket[]): void {
    const sockets = copies.map(({ fd }) => ({ fd }))
    // The queues of a worker that has ended go with it, as ever.
    if (this.#hasEnded) for (const copy of copies) copy.close()
    else this.#post({ type: 'goOn', sockets })
    this.#sockets = this.#descriptors.map(([name], at) => [name, copies[at] as PassedSocket])
  }

  async leave(heir: Heir, late: Promise<unknown>): Promise<void> {
    this.#heir = heir
    void late.then(() => this.#post({ type: 'hurry' }))
    this.#post({ type: 'leave' })
    await this.#left.promise
  }

  receive(message: HandOverMessage): void {
    switch (message.type) {
      case 'listening':
        this.#descriptors = message.sockets
        break
      case 'suspended':
        if (message.fault === undefined) this.#suspended.resolve(message.keys)
        else this.#suspended.reject(new Error(message.fault))
        break
      case 'connection': {
        const { id, connection, peer } = message
        const passed = () => this.#post({ type: 'passed', id })
        const socket = connectionOf(connection, peer)
        if (socket === undefined) passed()
        else this.#heir?.pass({ ...connection, socket }, passed)
        break
      }
      case 'records': {
        const { id, lines } = message
        const done = (error?: Error) => this.#post({ type: 'recorded', id, fault: error?.message })
        this.#heir?.record(lines).whenDone(done)
        break
      }
      default:
        this.#left.resolve()
    }
  }

  /** Its thread has ended. */
  ended(): void {
    this.#hasEnded = true
    this.#suspended.promise.catch(() => {})
    this.#suspended.reject(new Error('a worker has died'))
    this.#left.resolve()
  }
}

/** @returns undefined when the client has closed it, or the worker has ended and with it the connection */
function connectionOf({ socket: fd }: ConnectionOfThread, peer: string | undefined) {
  if (peer === undefined) return undefined
  try {
    const socket = socketOfThread(fd)
    return peerOfSocket(socket) === peer ? socket : undefined
  } catch {
    return undefined
  }
}

/** The part of the n-th of several workers in sockets that listen already. */
export function shareOf<S extends ListeningSocket>(
  sockets: Readonly<Record<string, readonly S[]>>,
  worker: number,
  workers: number,
): Record<string, ListeningSocket[] | undefined> {
  const share = Object.entries(sockets).map(([name, all]) => {
    const own = all.filter((_, at) => at % workers === worker).map(({ fd }) => ({ fd }))
    return [name, own.length > 0 ? own : undefined] as const
  })
  return Object.fromEntries(share)
}
