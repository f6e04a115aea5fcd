import { withoutSpaceAround } from '../../syntax/characters.ts'
import { STATIC_TABLE } from './static-table.ts'

const MAX_KNOWN_NAMES = 512
const knownNames = new Map<string, string>()

/** Begins a block that uses nothing of the client's table (RFC 7541 section 6.3). */
export const TABLE_UNUSED = '\x20'

const INDEX_OF_NAME: ReadonlyMap<string, number> = new Map(
  STATIC_TABLE.map((entry, at) => [/^:?[^:]+/.exec(entry)?.[0] ?? '', at + 1] as const).reverse(),
)
const INDEX_OF_STATUS: ReadonlyMap<number, number> = new Map(
  STATIC_TABLE.flatMap((entry, at) =>
    entry.startsWith(':status') ? [[Number(entry.slice(9)), at + 1] as const] : [],
  ),
)

/** A head as a latin1 block (RFC 7541), without dynamic table and Huffman codes. @param lines each with its CR LF */
export function encodeHead(status: number, lines: string): string {
  const indexed = INDEX_OF_STATUS.get(status)
  const block =
    indexed === undefined ? prefixOf(':status') + literal(String(status)) : integer(indexed, 7, 0x80)
  return block + encodeFields(lines)
}

/** Encodes lines without a status, such as trailers. */
export function encodeFields(lines: string): string {
  let block = ''
  for (let start = 0; start < lines.length; ) {
    const end = lines.indexOf('\r\n', start)
    const colon = lines.indexOf(':', start)
    if (end < 0 || colon < 0 || colon > end) throw new TypeError('a line of a head without a name or an end')
    block += prefixOf(lines.slice(start, colon)) + literal(withoutSpaceAround(lines.slice(colon + 1, end)))
    start = end + 2
  }
  return block
}

/** A literal field without indexing (RFC 7541 section 6.2.2), up to its value. */
function prefixOf(name: string): string {
  let prefix = knownNames.get(name)
  if (prefix === undefined) {
    const lower = name.toLowerCase()
    const index = INDEX_OF_NAME.get(lower)
    prefix = index === undefined ? `\0${literal(lower)}` : integer(index, 4, 0)
    if (knownNames.size >= MAX_KNOWN_NAMES) knownNames.clear()
    knownNames.set(name, prefix)
  }
  return prefix
}

function literal(text: string): string {
  return integer(text.length, 7, 0) + text
}

/** RFC 7541 section 5.1. @param bits of the first byte; `first` has the others */
function integer(value: number, bits: number, first: number): string {
  const most = (1 << bits) - 1
  if (value < most) return String.fromCharCode(first | value)
  let text = String.fromCharCode(first | most)
  let rest = value - most
  for (; rest >= 0x80; rest >>>= 7) text += String.fromCharCode((rest & 0x7f) | 0x80)
  return text + String.fromCharCode(rest)
}
