import type { RowRecord } from '../table/row-matching.ts'
import {
  type Entry,
  isGone,
  isSliced,
  type Law,
  MAX_LOGGED,
  openWindow,
  refusedForRoom,
  SliceWindow,
  type Take,
  type Window,
} from './window.ts'

/** Keys that all rows of a gateway may hold together: at some 250 bytes a key of few hits, 250 MB. */
const MAX_KEYS = 1_000_000
/** Keys looked at by each take. Two, because a take adds at most one: the sweep gains on any flood of new keys. */
const SWEEP = 2
/** Keys looked at before a new key is refused for want of room. */
const SWEEP_FOR_ROOM = 64

/**
 * How many keys may be counted. Half of the room is divided among the rows and reserved for each, the other half is
 * taken by whoever comes first: a flood of addresses on one row leaves the others room for their callers.
 */
export class Room {
  readonly #max: number
  #share = 0
  #common = 0
  #used = 0

  constructor(max: number = MAX_KEYS) {
    this.#max = max
  }

  /** Divide the room anew among rows that hold `sizes` keys. */
  divide(sizes: readonly number[]): void {
    this.#share = Math.max(1, Math.floor(this.#max / 2 / Math.max(1, sizes.length)))
    this.#common = Math.max(0, this.#max - this.#share * sizes.length)
    this.#used = sizes.reduce((used, size) => used + Math.max(0, size - this.#share), 0)
  }

  /** Room for one more key in a row of `size` keys; false when there is none. */
  claim(size: number): boolean {
    if (size < this.#share) return true
    if (this.#used >= this.#common) return false
    this.#used++
    return true
  }

  /** One more key in a row of `size` keys, whether there is room or not. */
  occupy(size: number): void {
    if (size >= this.#share) this.#used++
  }

  /** A row of `size` keys gives one up. */
  release(size: number): void {
    if (size > this.#share) this.#used--
  }
}

/** What has been let through under one row of the table, by key. */
export class Counters {
  readonly #windows = new Map<string, Window>()
  readonly #room: Room
  #cursor: MapIterator<[string, Window]>
  #record: RowRecord
  #law: Law
  #turnedAway = 0

  constructor(record: RowRecord, room: Room) {
    this.#room = room
    this.#record = record
    this.#law = lawOf(record)
    this.#cursor = this.#windows.entries()
  }

  /** The row that is counted, as it stands in the journal. */
  get record(): RowRecord {
    return this.#record
  }

  /** Go on counting under another law; the windows follow when they are next taken from. */
  edit(record: RowRecord): void {
    this.#record = record
    this.#law = lawOf(record)
  }

  /** Keys held, including idle ones that the sweep has not met yet. */
  get size(): number {
    return this.#windows.size
  }

  /** New keys refused because there was no room for them. */
  get turnedAway(): number {
    return this.#turnedAway
  }

  /**
   * Counts one hit of `key` if the row lets it through. A key that is counted is never given up for a new one, or a
   * flood of keys would wipe the counts of everybody: without room the new key is refused.
   */
  take(key: string, nowMs: number): Take {
    this.#sweep(SWEEP, nowMs)
    let window = this.#windows.get(key)
    if (window === undefined) {
      if (!this.#findRoom(nowMs)) {
        this.#turnedAway++
        return refusedForRoom(this.#law)
      }
      window = openWindow(this.#law)
      this.#windows.set(key, window)
    } else if (window.sliced !== isSliced(this.#law.limit)) {
      window = this.#refit(key, window, nowMs)
    }
    return window.take(nowMs, this.#law)
  }

  /** Takes the hit of the last take of `key` back, which was allowed. */
  giveBack(key: string): void {
    this.#windows.get(key)?.giveBack()
  }

  /** Counts one hit that was let through elsewhere, at `nowMs`, in the same windows; always finds room. */
  count(key: string, nowMs: number): void {
    this.#sweep(SWEEP, nowMs)
    let window = this.#windows.get(key)
    if (window === undefined) {
      this.#room.occupy(this.#windows.size)
      window = openWindow(this.#law)
      this.#windows.set(key, window)
    } else if (window.sliced !== isSliced(this.#law.limit)) {
      window = this.#refit(key, window, nowMs)
    }
    // Lets go of what a take lets go of, or a key that others take would grow here for ever.
    window.held(nowMs, this.#law)
    window.add([nowMs, 1], this.#law)
  }

  /** Counts hits of an earlier run, oldest first; always finds room. */
  restore(key: string, entry: Entry, nowMs: number): void {
    if (isGone(entry[0], nowMs, this.#law)) return
    let window = this.#windows.get(key)
    if (window === undefined) {
      window = openWindow(this.#law)
      this.#windows.set(key, window)
    }
    if (!window.sliced && window.held(nowMs, this.#law) + entry[1] > MAX_LOGGED) {
      window = refitted(window, new SliceWindow(), this.#law)
      this.#windows.set(key, window)
    }
    window.add(entry, this.#law)
  }

  /** Every hit that counts at `nowMs`: oldest first for each key. */
  *entries(nowMs: number): Iterable<readonly [key: string, entry: Entry]> {
    for (const [key, window] of this.#windows) {
      for (const entry of window.entries()) if (!isGone(entry[0], nowMs, this.#law)) yield [key, entry]
    }
  }

  /**
   * The window in the form that an edited limit asks for. Slices that hold as much as the limit stay slices: they
   * refuse everything anyway, and hit by hit they could take any amount of memory.
   */
  #refit(key: string, window: Window, nowMs: number): Window {
    const held = window.held(nowMs, this.#law)
    if (window.sliced && held >= this.#law.limit) return window
    const fitted = refitted(window, openWindow(this.#law), this.#law)
    this.#windows.set(key, fitted)
    return fitted
  }

  #findRoom(nowMs: number): boolean {
    if (this.#room.claim(this.#windows.size)) return true
    this.#sweep(SWEEP_FOR_ROOM, nowMs)
    return this.#room.claim(this.#windows.size)
  }

  /** Drops what is idle among the next few keys, round and round. */
  #sweep(keys: number, nowMs: number): void {
    for (let i = 0; i < keys; i++) {
      const next = this.#cursor.next()
      if (next.done) {
        this.#cursor = this.#windows.entries()
        continue
      }
      const [key, window] = next.value
      if (window.idle(nowMs, this.#law)) {
        this.#room.release(this.#windows.size)
        this.#windows.delete(key)
      }
    }
  }
}

function refitted(from: Window, to: Window, law: Law): Window {
  for (const entry of from.entries()) to.add(entry, law)
  return to
}

function lawOf(record: RowRecord): Law {
  const { limit, windowMs, horizonMs } = record
  return { limit, windowMs, horizonMs: horizonMs ?? Number.NEGATIVE_INFINITY }
}
