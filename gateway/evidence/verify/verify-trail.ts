import { STOP_HEAD } from '../../audit/audit-records.ts'
import { SEAL_HEAD } from '../../audit/seal-records.ts'
import type { Checkpoint } from '../../audit/seals/checkpoint.ts'
import type { HashText } from '../../audit/seals/hashes.ts'
import { LineHasher } from '../../audit/seals/line-hasher.ts'
import { TileFault } from '../../audit/seals/tiles.ts'
import { chunksOf, NEWLINE } from '../../audit/segments/read-segment.ts'
import type { Segment } from '../../audit/segments/segment.ts'
import { plural } from '../../terminal/printable.ts'
import { compareKept, type KeptCheckpoint } from '../attested-checkpoints.ts'
import { numberOf, parseLine, textOf } from '../records/audit-line.ts'
import type { OnRead } from '../records/scan-trail.ts'
import { LineComparison } from './compare-lines.ts'
import type { Finding, Place } from './finding.ts'
import { firstLeafOf, ProvenTiles } from './proven-tiles.ts'
import { ReadLines } from './read-lines.ts'
import { RecordOrder, Warnings } from './record-order.ts'
import { openLog, type TrustedKey } from './trusted-key.ts'
import { judgeUnsealed } from './unsealed-lines.ts'

export interface Evidence {
  /** Oldest first. A function is called after the checkpoint is read, so it lists all segments with sealed lines. */
  readonly segments: readonly Segment[] | (() => Promise<readonly Segment[]>)
  /** True when the log may begin before the lines. */
  readonly isPart: boolean
  /** True when the log may go on behind the lines. */
  readonly endsEarly?: boolean | undefined
  readonly directory: string
  readonly key: TrustedKey
  /** Checkpoints that were kept outside the log, or that others have attested. */
  readonly kept?: readonly KeptCheckpoint[]
  readonly isUnsealedAllowed?: boolean | undefined
  readonly now?: () => number
  readonly onRead?: OnRead | undefined
}

export interface Verdict {
  /** Undefined: the key has signed none. */
  readonly checkpoint: Checkpoint | undefined
  /** Leaf of the first line, from 0. */
  readonly firstLeaf: number
  readonly lines: number
  readonly files: number
  /** Number of sealed lines before the first that differs. */
  readonly provenLines: number
  readonly pairs: number
  readonly open: number
  /** First and last leaf, from 0, when only a part was given. */
  readonly part: { readonly first: number; readonly last: number } | undefined
  readonly tail: string
  /** Empty: proven. */
  readonly findings: readonly Finding[]
  /** At most 20. */
  readonly warnings: readonly string[]
  /** Names who attests the log, and up to where. */
  readonly attested: readonly string[]
}

interface Seal {
  readonly origin: unknown
  readonly size: number
  readonly root: unknown
  readonly line: number
}

/** First lines that are looked for in the tree. */
const SOUGHT_LINES = 4096
/** Most lines between an AUDIT_SEAL and the last line that it covers. */
const SEAL_LAG_LINES = 1024
const RECORD_HEAD_BYTES = '{"type":"A'.length
/** The second letter of `API_REQUEST`. */
const P = 0x50
const PRUNE_HEAD = '{"type":"AUDIT_PRUNE",'

export async function verifyTrail(evidence: Evidence): Promise<Verdict> {
  const opened = openLog(evidence.directory, evidence.key)
  if ('what' in opened) {
    const none = {
      checkpoint: undefined,
      firstLeaf: 0,
      lines: 0,
      files: 0,
      provenLines: 0,
      pairs: 0,
      open: 0,
      part: undefined,
    }
    return { ...none, tail: 'nothing is proven', findings: [opened], warnings: [], attested: [] }
  }
  return await new Verification(evidence, opened).run()
}

class Verification {
  readonly #evidence: Evidence
  readonly #checkpoint: Checkpoint
  readonly #tiles: ProvenTiles
  readonly #lines = new ReadLines()
  readonly #warnings = new Warnings(this.#lines)
  readonly #order = new RecordOrder(this.#warnings)
  readonly #findings: Finding[] = []
  readonly #attested: string[] = []
  /** AUDIT_SEAL lines not checked yet. */
  #seals: Seal[] = []
  #lastSeal: Seal | undefined
  readonly #wrongSeals: Seal[] = []
  #isRolledBack = false
  #sealFinding: Finding | undefined
  /** Line of the first AUDIT_PRUNE for a segment, by the leaf behind that segment. */
  readonly #prunedTo = new Map<number, number>()
  #firstLeaf = 0
  #comparison: LineComparison | undefined
  #tornBytes = 0
  #torn: Place | undefined
  #segments: readonly Segment[] = []
  #closedLines = 0

  constructor(evidence: Evidence, checkpoint: Checkpoint) {
    this.#evidence = evidence
    this.#checkpoint = checkpoint
    this.#tiles = new ProvenTiles(evidence.directory, checkpoint)
  }

  async run(): Promise<Verdict> {
    await this.#readAll()
    const comparison = this.#comparison ?? this.#begin()
    this.#checkSeals(comparison)
    // A cut file rarely ends with AUDIT_STOP and a whole line.
    const isClosed = this.#closedLines === this.#lines.count && this.#tornBytes === 0
    comparison.end(this.#evidence.endsEarly === true && isClosed)
    if (!comparison.isBroken && comparison.addedLines > 0) {
      this.#sealFinding = undefined
      this.#seals = this.#wrongSeals.splice(0)
      this.#checkSeals(comparison)
    }
    this.#findings.unshift(...this.#lineFindings(comparison.findings))
    this.#findings.push(...(await this.#judgeRest(comparison)))
    this.#compareKept()
    return {
      checkpoint: this.#checkpoint,
      firstLeaf: this.#firstLeaf,
      lines: this.#lines.count,
      files: this.#lines.files,
      provenLines: comparison.provenLines,
      pairs: this.#order.pairs,
      open: this.#order.open,
      tail: this.#tailOf(comparison),
      findings: this.#findings,
      warnings: this.#warnings.all(this.#evidence.isPart || this.#firstLeaf > 0),
      part: this.#partOf(comparison),
      attested: this.#attested,
    }
  }

  #partOf({ isPart, provenLines, findings }: LineComparison): Verdict['part'] {
    if (findings.length > 0) return undefined
    const first = this.#firstLeaf
    const beginsLate = this.#evidence.isPart && first > 0
    return isPart || beginsLate ? { first, last: first + provenLines - 1 } : undefined
  }

  #tailOf({ addedLines, provenLines, isPart }: LineComparison): string {
    const { size } = this.#checkpoint
    const lines = this.#lines.count - addedLines
    const rest = this.#firstLeaf + lines - size
    if (isPart)
      return `${plural(-rest, 'sealed line after these was', 'sealed lines after these were')} not given and not judged`
    if (rest < 0) return `cut: ${plural(-rest, 'sealed line is', 'sealed lines are')} missing`
    if (provenLines < lines - rest) return 'not judged'
    const torn =
      this.#tornBytes > 0 ? `, and ${plural(this.#tornBytes, 'byte')} of a line that is not whole` : ''
    if (rest === 0)
      return `sealed to the last line; its AUDIT_SEAL is missing: the gateway crashed, or the end was cut off${torn}`
    const seal = this.#lastSeal
    const isLast = seal?.line === this.#lines.count - 1 && seal.size === size
    if (rest === 1 && isLast && torn === '') return 'sealed to the end'
    return `unsealed: ${plural(rest, 'line')} after the checkpoint${torn}, as a running or a crashed gateway leaves them`
  }

  async #readAll(): Promise<void> {
    const { segments: given, onRead } = this.#evidence
    const segments = typeof given === 'function' ? await given() : given
    const totalBytes = segments.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0)
    let doneBytes = 0
    for (const segment of segments) {
      this.#nameTorn()
      this.#lines.beginFile(segment.path)
      let byte = 0
      const hasher = new LineHasher((hash, bytes, start, end, lineBytes) => {
        this.#read(hash, bytes, start, end, byte)
        byte += lineBytes
      })
      for await (const chunk of chunksOf(segment)) {
        hasher.push(chunk)
        this.#advance()
        if (this.#comparison?.isDecided === true) return
        onRead?.(doneBytes + Math.min(byte, segment.sizeBytes), totalBytes)
      }
      this.#tornBytes = hasher.unfinishedBytes
      this.#torn = { file: segment.path, line: this.#lines.lineAfter, byte }
      this.#segments = segments
      doneBytes += segment.sizeBytes
    }
  }

  /** A gateway cuts the torn line of a file off before it goes on. */
  #nameTorn(): void {
    if (this.#tornBytes === 0) return
    const text = `${plural(this.#tornBytes, 'byte')} of a line that is not whole, in a file that is closed`
    this.#findings.push({ what: 'added', place: this.#torn, text })
  }

  /** Judges lines behind the last sealed one, unless they were sealed meanwhile. */
  async #judgeRest(comparison: LineComparison): Promise<readonly Finding[]> {
    const { size } = this.#checkpoint
    const from = this.#lines.place(size - this.#firstLeaf + comparison.addedLines - 1)
    const isJudged = !(comparison.isBroken || comparison.isPart || this.#isRolledBack)
    if (!isJudged || from === undefined || this.#hasGrownTo(size + 1)) return []
    const { isUnsealedAllowed: isAllowed = false, now = Date.now } = this.#evidence
    const segments = this.#segments.slice(this.#segments.findIndex(({ path }) => path === from.file))
    return judgeUnsealed({ segments, from, size, isAllowed, nowMs: now() })
  }

  #read(hash: HashText, bytes: Buffer, start: number, end: number, byte: number): void {
    this.#lines.push(hash, byte)
    const line = bytes.toString('latin1', start, bytes[end - 1] === NEWLINE ? end - 1 : end)
    this.#order.read(line)
    if (bytes[start + RECORD_HEAD_BYTES] === P) return
    const isSeal = line.startsWith(SEAL_HEAD)
    const before = this.#lines.count - 1
    if (line.startsWith(STOP_HEAD) || (isSeal && this.#closedLines === before)) this.#closedLines = before + 1
    if (!isSeal && !line.startsWith(PRUNE_HEAD)) return
    const { origin, size, root, last } = parseLine(bytes.subarray(start, end)) ?? {}
    if (isSeal) this.#seals.push({ origin, size: numberOf(size), root, line: before })
    else if (typeof last === 'number' && !this.#prunedTo.has(last + 1)) this.#prunedTo.set(last + 1, before)
  }

  /** Leaves out the last lines, which the next AUDIT_SEAL may cover. */
  #advance(): void {
    if (this.#comparison === undefined && this.#lines.count < SOUGHT_LINES) return
    const comparison = this.#comparison ?? this.#begin()
    this.#checkSeals(comparison)
    comparison.compareTo(this.#firstLeaf + this.#lines.count - SEAL_LAG_LINES)
  }

  #begin(): LineComparison {
    const first: HashText[] = []
    for (let line = 0; line < Math.min(SOUGHT_LINES, this.#lines.count); line++) {
      first.push(this.#lines.hash(line) as HashText)
    }
    this.#firstLeaf = firstLeafOf(first, this.#tiles, this.#checkpoint.size) ?? 0
    this.#comparison = this.#compareFrom(this.#firstLeaf)
    return this.#comparison
  }

  #compareFrom(firstLeaf: number): LineComparison {
    try {
      return new LineComparison(this.#lines, this.#tiles, this.#checkpoint, firstLeaf)
    } catch (error) {
      if (!(error instanceof TileFault)) throw error
      this.#findings.push({ what: 'tile', text: error.message })
      this.#firstLeaf = 0
      return new LineComparison(this.#lines, this.#tiles, this.#checkpoint, 0)
    }
  }

  #checkSeals(comparison: LineComparison): void {
    const seals = this.#seals
    this.#seals = []
    for (const seal of seals) {
      const { origin, size } = this.#checkpoint
      const place = this.#lines.place(seal.line)
      if (seal.origin !== origin) {
        this.#warnings.add(`an AUDIT_SEAL of another log, ${textOf(seal.origin)}`, place)
        continue
      }
      if (seal.size > size) {
        if (!this.#isRolledBack && !this.#hasGrownTo(seal.size)) {
          this.#isRolledBack = true
          const text = `this AUDIT_SEAL names a checkpoint over ${plural(seal.size, 'line')}, but the one that is there covers only ${size.toLocaleString('en')}`
          this.#findings.push({ what: 'rolled back', place, text })
        }
        return
      }
      comparison.compareTo(seal.size)
      this.#checkSeal(comparison, seal, place)
    }
  }

  #isSealed(leaf: number): boolean {
    return leaf < this.#checkpoint.size || this.#hasGrownTo(leaf + 1)
  }

  /** A running gateway may have sealed more meanwhile. */
  #hasGrownTo(size: number): boolean {
    const { directory, key } = this.#evidence
    const now = openLog(directory, key)
    return !('what' in now) && now.size >= size
  }

  #checkSeal(comparison: LineComparison, seal: Seal, place: Place | undefined): void {
    if (comparison.isBroken) {
      this.#wrongSeals.push(seal)
      return
    }
    // No gateway seals an empty tree.
    if (!(Number.isInteger(seal.size) && seal.size > 0)) {
      this.#sealFinding ??= {
        what: 'changed',
        place,
        text: 'this AUDIT_SEAL names a size that no tree has',
      }
      return
    }
    const root = comparison.rootAt(seal.size)?.toString('base64')
    if (root === undefined || root === seal.root) {
      this.#lastSeal = seal
      return
    }
    this.#wrongSeals.push(seal)
    if (this.#sealFinding === undefined) {
      const after = this.#lastSeal === undefined ? 'the first line' : `line ${this.#lastSeal.size} of the log`
      const text = `this AUDIT_SEAL names another root than the lines before it have: a line after ${after} was changed`
      this.#sealFinding = { what: 'changed', place, text }
    }
  }

  #lineFindings(found: readonly Finding[]): readonly Finding[] {
    // Changed lines make the root wrong, so a finding that names them says enough.
    const seal = found[0]?.place === undefined ? this.#sealFinding : undefined
    if (found.length > 0) return seal === undefined ? found : [seal, ...found]
    const beginning = this.#beginning()
    return [beginning, seal].filter((one) => one !== undefined)
  }

  /** Lines may be missing at the beginning if a sealed AUDIT_PRUNE names them; anybody can write an unsealed one. */
  #beginning(): Finding | undefined {
    const first = this.#firstLeaf
    if (this.#evidence.isPart || first === 0) return undefined
    const line = this.#prunedTo.get(first)
    if (line !== undefined && this.#isSealed(first + line)) return undefined
    const text = `${plural(first, 'line')} stood before this one, and no AUDIT_PRUNE that is sealed says that ${first === 1 ? 'it was' : 'they were'} pruned`
    return { what: 'removed', place: this.#lines.place(0), text }
  }

  #compareKept(): void {
    const { kept = [], key } = this.#evidence
    const provenRootAt = (size: number) => this.#tiles.provenRootAt(size)
    const log = { checkpoint: this.#checkpoint, provenRootAt }
    for (const one of kept) {
      const compared = compareKept(one, key, log)
      if ('what' in compared) this.#findings.push(compared)
      else if (compared.isKnown) this.#attested.push(compared.text)
      else this.#warnings.add(compared.text, null)
    }
  }
}
