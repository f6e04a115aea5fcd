/** A set that says how large it is whenever that may have changed. */
export class PublishedSet<T> extends Set<T> {
  readonly #publish: () => void

  constructor(publish: () => void) {
    super()
    this.#publish = publish
  }

  override add(value: T): this {
    super.add(value)
    this.#publish()
    return this
  }

  override delete(value: T): boolean {
    const had = super.delete(value)
    this.#publish()
    return had
  }
}
