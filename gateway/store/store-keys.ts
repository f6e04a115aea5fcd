import { createHmac } from 'node:crypto'
import { LRUCache } from 'lru-cache'

/** A remembered key takes about 250 bytes. */
const MAX_REMEMBERED = 20_000
/** 132 bits of HMAC-SHA256. */
const HASH_CHARACTERS = 22

/** Keyed hashes replace names in keys, so that a reader of the store can neither learn a name nor test a guess. */
export class StoreKeys {
  readonly #prefix: string
  // With `max` the cache would take 2 ms to make places for all.
  readonly #remembered = new LRUCache<string, string>({ maxSize: MAX_REMEMBERED, sizeCalculation: () => 1 })
  #hashKey: string

  constructor(prefix: string, hashKey: string) {
    this.#prefix = prefix
    this.#hashKey = hashKey
  }

  get hashKey(): string {
    return this.#hashKey
  }

  rekey(hashKey: string): void {
    if (hashKey === this.#hashKey) return
    this.#hashKey = hashKey
    this.#remembered.clear()
  }

  /** @returns `<prefix>:{<hash>}`, because a cluster spreads keys by the hash @param space holds no NUL */
  keyOf(space: string, name: string): string {
    const text = `${space}\0${name}`
    const known = this.#remembered.get(text)
    if (known !== undefined) return known
    const key = this.keyOfOnce(space, name)
    this.#remembered.set(text, key)
    return key
  }

  /** Does not remember the key; for names that come once, such as message ids. */
  keyOfOnce(space: string, name: string): string {
    return `${this.#prefix}:{${this.hashOf(`${space}\0${name}`)}}`
  }

  /** @param hashKey default: the one in force */
  hashOf(text: string, hashKey: string = this.#hashKey): string {
    const digest = createHmac('sha256', hashKey).update(text).digest('base64url')
    return digest.slice(0, HASH_CHARACTERS)
  }

  common(name: string): string {
    return `${this.#prefix}:${name}`
  }
}
