/** Lengths of the codes for each byte, then for EOS, in base 36 (RFC 7541 appendix B). The codes follow from them. */
const LENGTHS =
  'dnsssssssoussussssssssusssssssss6aacd68baa8b8666555666666678f6cad67777777777777777777777878djde6f565' +
  '65666577666567655677777fbedskmkkmmmnmnnnnnonoomnonnnnlmnmnnomlkmmnnlnmmolmnnllmlnmnnkmmmnmmnqqkjmnmp' +
  'qqqrrqopjlqrrqrollqqsrrrkoklmllnmmppooqnqrqqrrrrrsrrrrrqu'

/** A block has at most twice the largest `maxHeaderBytes`. */
const MAX_ENCODED_BYTES = 2 * 65_536
/** The shortest code has five bits. */
const decoded = Buffer.allocUnsafeSlow(Math.ceil((MAX_ENCODED_BYTES * 8) / 5))

const EMITS = 1 << 16
const FAILS = 1 << 17
const NODES = 256

/** For a node and four bits of input: the next node (bits 0 to 7), and the byte that the input completes (bits 8 to 15). */
const STEPS = new Int32Array(NODES * 16)
/** 1 for nodes where a text may end: fewer than eight bits since the last byte, all ones (RFC 7541 section 5.2). */
const MAY_END = new Uint8Array(NODES)
build()

/** @returns undefined when the text is not valid */
export function decodeHuffman(bytes: Buffer, from: number, to: number): string | undefined {
  let node = 0
  let length = 0
  for (let at = from; at < to; at++) {
    const byte = bytes[at] as number
    let step = STEPS[(node << 4) | (byte >> 4)] as number
    if (step & EMITS) decoded[length++] = step >> 8
    if (step & FAILS) return undefined
    step = STEPS[((step & 0xff) << 4) | (byte & 15)] as number
    if (step & EMITS) decoded[length++] = step >> 8
    if (step & FAILS) return undefined
    node = step & 0xff
  }
  return MAY_END[node] === 1 ? decoded.toString('latin1', 0, length) : undefined
}

function build(): void {
  const children = tree()
  for (let node = 0; node < NODES; node++) {
    for (let bits = 0; bits < 16; bits++) STEPS[(node << 4) | bits] = stepFrom(children, node, bits)
  }
  let node = 0
  for (let depth = 0; depth < 8; depth++) {
    MAY_END[node] = 1
    node = children[2 * node + 1] as number
  }
}

/** Two children of each node. A child is another node, or the complement of a symbol. */
function tree(): Int32Array {
  const children = new Int32Array(2 * NODES)
  let nodes = 1
  const place = (code: number, length: number, symbol: number) => {
    let node = 0
    for (let bit = length - 1; bit > 0; bit--) {
      const at = 2 * node + ((code >> bit) & 1)
      if (children[at] === 0) children[at] = nodes++
      node = children[at] as number
    }
    children[2 * node + (code & 1)] = ~symbol
  }
  const lengths = [...LENGTHS].map((digit) => Number.parseInt(digit, 36))
  let code = 0
  for (let length = 1; length <= 30; length++) {
    code <<= 1
    for (const [symbol, its] of lengths.entries()) if (its === length) place(code++, length, symbol)
  }
  return children
}

function stepFrom(children: Int32Array, from: number, bits: number): number {
  let node = from
  let emitted = 0
  for (let bit = 3; bit >= 0; bit--) {
    const child = children[2 * node + ((bits >> bit) & 1)] as number
    if (child >= 0) node = child
    // EOS itself must not occur.
    else if (~child === 256) return FAILS
    else {
      emitted = EMITS | (~child << 8)
      node = 0
    }
  }
  return emitted | node
}
