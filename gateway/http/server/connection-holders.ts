import { Slots, type Slotted } from '../syntax/slots.ts'

/** How many connections are looked at for one that can go. */
const MAX_LOOKS = 64
const LOOKS_PER_HOLDER = 16

/** What stands on an accepted connection. */
export interface Occupant {
  /** Nothing is asked that is not answered. */
  readonly isIdle: boolean
  /** The earlier, the longer it has been idle. */
  readonly deadlineMs: number
}

/** One accepted connection, from accept until it is closed. */
export interface Place extends Slotted {
  readonly holder: Holder
  /** A handshake at first, then what speaks HTTP. */
  occupant: Occupant
  /** Closes the connection at once. */
  close(): void
}

/** An address, IPv6 by its /64, and the connections that it has open here. */
export class Holder implements Slotted {
  /** Its place among those that have as many connections. */
  slot = -1
  readonly network: string
  /** It stands for many clients: no share is held against it. */
  readonly isProxy: boolean
  readonly connections = new Slots<Place>()
  /** Written by who handles the requests: how many of them use what all share. */
  places = 0

  constructor(network: string, isProxy: boolean) {
    this.network = network
    this.isProxy = isProxy
  }
}

/**
 * Who has how many connections open. Everything costs the same however many there are: holders stand in rows by the number
 * of their connections, and for one that can go only so many are looked at.
 */
export class Holders {
  readonly #byNetwork = new Map<string, Holder>()
  /** By the number of connections. Without proxies: they go last. */
  readonly #rows: Slots<Holder>[] = []
  readonly #proxies = new Slots<Holder>()
  #largest = 0
  #size = 0
  /** Where looking begins, so that not always the same ones are looked at. */
  #cursor = 0

  /** Connections of all. */
  get size(): number {
    return this.#size
  }

  /** How many connections the one that is no proxy has who has most. */
  get largest(): number {
    return this.#largest
  }

  /** To be used at once: it is only kept while it has connections. */
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

  /** Nothing happens to one that is not here. */
  remove(place: Place): void {
    const { holder } = place
    if (holder.connections.at(place.slot) !== place) return
    this.#leaveRow(holder)
    holder.connections.remove(place)
    this.#size--
    this.#joinRow(holder)
    if (holder.connections.size === 0) this.#byNetwork.delete(holder.network)
  }

  /** One of the holder's on which nothing is asked, of those that are looked at the one that has been so for longest. */
  idleOf(holder: Holder): Place | undefined {
    let longest: Place | undefined
    for (const place of this.#some(holder.connections, LOOKS_PER_HOLDER)) longest = longerIdle(longest, place)
    return longest
  }

  /** The same of anybody: those with most connections are asked first, proxies last. */
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

  /** Whatever stands on it, of the one that has most connections and is no proxy. */
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
    // One connection at a time comes or goes.
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
