import { HASH_BYTES } from '../../audit/seals/hashes.ts'

/** C2SP tlog-proof: a leaf of a log that is proven by nothing but this text and the log's key. */
export interface TlogProof {
  /** Not authenticated; here the leaf itself, as its line of the trail. */
  readonly extra: Buffer
  readonly index: number
  /** From the leaf's sibling to the child of the root. */
  readonly hashes: readonly Buffer[]
  /** The signed note, byte for byte. */
  readonly checkpoint: string
}

const HEAD = 'c2sp.org/tlog-proof@v1'
const PROOF =
  /^c2sp\.org\/tlog-proof@v1\nextra ([A-Za-z0-9+/=]+)\nindex (0|[1-9]\d*)\n((?:[A-Za-z0-9+/]{43}=\n)*)\n([\s\S]+)$/
/** A proof of a tree of 2^63 leaves has 63 hashes. */
const HASHES_MAX = 63

export function formatProof({ extra, index, hashes, checkpoint }: TlogProof): string {
  const path = hashes.map((hash) => `${hash.toString('base64')}\n`).join('')
  return `${HEAD}\nextra ${extra.toString('base64')}\nindex ${index}\n${path}\n${checkpoint}`
}

/** The proofs of a text, which may hold several. @throws Error when one is none. */
export function parseProofs(text: string): TlogProof[] {
  const parts = text.split(new RegExp(`^(?=${HEAD.replaceAll('.', '\\.')}$)`, 'm'))
  return parts.map(parseProof)
}

function parseProof(text: string): TlogProof {
  const [, extra, index, path, checkpoint] = PROOF.exec(text) ?? []
  if (extra === undefined || path === undefined || checkpoint === undefined) {
    throw new Error('is no C2SP tlog-proof of a line: its record stands behind "extra"')
  }
  const hashes = path
    .split('\n')
    .slice(0, -1)
    .map((line) => Buffer.from(line, 'base64'))
  if (hashes.length > HASHES_MAX || hashes.some(({ length }) => length !== HASH_BYTES)) {
    throw new Error('has a path that is none')
  }
  return { extra: Buffer.from(extra, 'base64'), index: Number(index), hashes, checkpoint }
}
