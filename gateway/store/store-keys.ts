import { createHmac } from 'node:crypto'
import { LRUCache } from 'lru-cache'

/** Most names in memory: 5 MB at about 250 bytes each. */
const MAX_REMEMBERED = 20_000
/** 132 bits of HMAC-SHA256. */
const HASH_CHARACTERS = 22

/** The keys of the store. Names in them are keyed hashes, so that a reader of the store can neither learn a name nor test a guess. */
export class StoreKeys {
  readonly #prefix: string
  readonly #remembered = new LRUCache<string, string>({ max: MAX_REMEMBERED })
  #hashKey: string

  /** @param hashKey the same at all gateways */
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

  /** `<prefix>:{<hash>}`: a cluster spreads keys by the hash. @param space such as the identity of a limit; holds no NUL */
  keyOf(space: string, name: string): string {
    const text = `${space}\0${name}`
    const known = this.#remembered.get(text)
    if (known !== undefined) return known
    const key = this.keyOfOnce(space, name)
    this.#remembered.set(text, key)
    return key
  }

  /** The key of a name that comes once, such as a message id. Not remembered. */
  keyOfOnce(space: string, name: string): string {
    return `${this.#prefix}:{${this.hashOf(`${space}\0${name}`)}}`
  }

  /** A keyed hash, 22 characters of base64url. @param hashKey default: the one in force */
  hashOf(text: string, hashKey: string = this.#hashKey): string {
    const digest = createHmac('sha256', hashKey).update(text).digest('base64url')
    return digest.slice(0, HASH_CHARACTERS)
  }

  common(name: string): string {
    return `${this.#prefix}:${name}`
  }
}
