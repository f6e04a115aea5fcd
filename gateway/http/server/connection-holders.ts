import { Slots, type Slotted } from '../syntax/slots.ts'

/** How many connections are searched for an idle one. */
const MAX_LOOKS = 64
const LOOKS_PER_HOLDER = 16

/** What uses an accepted connection: a TLS handshake or HTTP. */
export interface Occupant {
  /** No request is open. */
  readonly isIdle: boolean
  /** The earlier, the longer idle. */
  readonly deadlineMs: number
}

/** One accepted connection, from accept until it is closed. */
export interface Place extends Slotted {
  readonly holder: Holder
  /** A TLS handshake first, then an HTTP connection. */
  occupant: Occupant
  /** Closes the connection at once. */
  close(): void
}

/** A client address, IPv6 by its /64, with its open connections. */
export class Holder implements Slotted {
  /** Its place among the holders with as many connections. */
  slot = -1
  readonly network: string
  /** It stands for many clients: fair shares do not apply to it. */
  readonly isProxy: boolean
  readonly connections = new Slots<Place>()
  /** How many upstream places its requests use. Written by the handler. */
  places = 0

  constructor(network: string, isProxy: boolean) {
    this.network = network
    this.isProxy = isProxy
  }
}

/**
 * The holders of all connections, in rows by their number of connections. Every operation takes constant time, because
 * the search for an idle connection looks at a bounded number only.
 */
export class Holders {
  readonly #byNetwork = new Map<string, Holder>()
  /** By the number of connections, without proxies. */
  readonly #rows: Slots<Holder>[] = []
  readonly #proxies = new Slots<Holder>()
  #largest = 0
  #size = 0
  /** Where the next search begins, so that it does not always see the same ones. */
  #cursor = 0

  /** The number of all connections. */
  get size(): number {
    return this.#size
  }

  /** The most connections that one holder has, proxies aside. */
  get largest(): number {
    return this.#largest
  }

  /** Kept only while it has connections: use it at once. */
  holderOf(network: string, isProxy: boolean): Holder {
    return this.#byNetwork.get(network) ?? new Holder(network, isProxy)
  }

  add(place: Place): void {
    const { holder } = place
    if (holder.connections.size === 0) this.#byNetwork.set(holder.network, holder)
    this.#leaveRow(holder)
    holder.connections.add(place)
    this.#size++
    this.#joinRow(holder)
  }

  /** Does nothing when it was removed already. */
  remove(place: Place): void {
    const { holder } = place
    if (holder.connections.at(place.slot) !== place) return
    this.#leaveRow(holder)
    holder.connections.remove(place)
    this.#size--
    this.#joinRow(holder)
    if (holder.connections.size === 0) this.#byNetwork.delete(holder.network)
  }

  /** The longest idle of the holder's connections that are looked at. */
  idleOf(holder: Holder): Place | undefined {
    let longest: Place | undefined
    for (const place of this.#some(holder.connections, LOOKS_PER_HOLDER)) longest = longerIdle(longest, place)
    return longest
  }

  /** The same over all holders: those with most connections first, proxies last. */
  idleOfLargest(): Place | undefined {
    let looks = MAX_LOOKS
    for (let size = this.#largest; size > 0 && looks > 0; size--) {
      const row = this.#rows[size]
      if (row === undefined || row.size === 0) continue
      const longest = this.#idleOfRow(row, looks)
      if (longest !== undefined) return longest
      looks -= row.size * Math.min(size, LOOKS_PER_HOLDER)
    }
    return this.#idleOfRow(this.#proxies, MAX_LOOKS)
  }

  /** Any connection, idle or not, of the holder with most connections, proxies aside. */
  anyOfLargest(): Place | undefined {
    const [holder] = this.#some(this.#rows[this.#largest] ?? this.#proxies, 1)
    return holder && this.#some(holder.connections, 1)[0]
  }

  #idleOfRow(row: Slots<Holder>, looks: number): Place | undefined {
    let longest: Place | undefined
    for (const holder of this.#some(row, looks)) {
      const idle = this.idleOf(holder)
      if (idle !== undefined) longest = longerIdle(longest, idle)
    }
    return longest
  }

  #some<T extends Slotted>(all: Slots<T>, most: number): T[] {
    const some: T[] = []
    const count = Math.min(all.size, most)
    for (let i = 0; i < count; i++) some.push(all.at((this.#cursor + i) % all.size) as T)
    this.#cursor += count
    return some
  }

  #leaveRow(holder: Holder): void {
    this.#rowOf(holder).remove(holder)
  }

  #joinRow(holder: Holder): void {
    const { size } = holder.connections
    if (size > 0) this.#rowOf(holder).add(holder)
    if (holder.isProxy) return
    if (size > this.#largest) this.#largest = size
    // The number changes by one at a time.
    else if (this.#largest > 0 && this.#rows[this.#largest]?.size === 0) this.#largest--
  }

  #rowOf(holder: Holder): Slots<Holder> {
    if (holder.isProxy) return this.#proxies
    const { size } = holder.connections
    let row = this.#rows[size]
    if (row === undefined) {
      row = new Slots()
      this.#rows[size] = row
    }
    return row
  }
}

function longerIdle(longest: Place | undefined, place: Place): Place | undefined {
  const { isIdle, deadlineMs } = place.occupant
  if (!isIdle) return longest
  return longest === undefined || deadlineMs < longest.occupant.deadlineMs ? place : longest
}
