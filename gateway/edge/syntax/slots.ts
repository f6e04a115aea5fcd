export interface Slotted {
  /** Written by `Slots` only, so an object can be in one `Slots` at a time. */
  slot: number
}

/** A set for objects that come and go. V8's `Set` keeps old tables and their members until a full collection. */
export class Slots<T extends Slotted> {
  readonly #all: T[] = []

  get size(): number {
    return this.#all.length
  }

  /** @param place below `size`. A removal moves the last object into the free place. */
  at(place: number): T | undefined {
    return this.#all[place]
  }

  add(one: T): void {
    one.slot = this.#all.push(one) - 1
  }

  /** Does nothing when the object is not in the set. */
  remove(one: Slotted): void {
    if (this.#all[one.slot] !== one) return
    const last = this.#all.pop()
    if (last !== undefined && last !== one) {
      last.slot = one.slot
      this.#all[one.slot] = last
    }
  }

  /** Visits from the last to the first. `visit` may remove any. */
  visitAll(visit: (one: T) => void): void {
    for (let i = this.#all.length - 1; i >= 0; i--) {
      const one = this.#all[i]
      if (one !== undefined) visit(one)
    }
  }
}
