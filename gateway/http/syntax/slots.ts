/** What can stand in Slots: in one at a time. */
export interface Slotted {
  /** Its place; belongs to Slots. */
  slot: number
}

/**
 * A set of what comes and goes all the time. V8's own Set leaves each table that it has outgrown pointing to the next;
 * with one that has become old all later ones stay in memory, and everything that ever stood in them, until a full
 * collection: here a third of all that a request makes.
 */
export class Slots<T extends Slotted> {
  readonly #all: T[] = []

  get size(): number {
    return this.#all.length
  }

  /** What stands at a place below `size`; which one that is changes with every removal. */
  at(place: number): T | undefined {
    return this.#all[place]
  }

  add(one: T): void {
    one.slot = this.#all.push(one) - 1
  }

  /** Nothing happens to one that is not here. */
  remove(one: T): void {
    if (this.#all[one.slot] !== one) return
    const last = this.#all.pop()
    if (last !== undefined && last !== one) {
      last.slot = one.slot
      this.#all[one.slot] = last
    }
  }

  /** From the last to the first; `visit` may remove any of them, also others than the one it is given. */
  visitAll(visit: (one: T) => void): void {
    for (let i = this.#all.length - 1; i >= 0; i--) {
      const one = this.#all[i]
      if (one !== undefined) visit(one)
    }
  }
}
