import { logDirectory } from '../../audit/seals/tiles.ts'
import type { Segment } from '../../audit/segments/segment.ts'
import { segmentsOfTrail } from '../../audit/segments/trail-segments.ts'
import type { Witnesses } from '../../audit/witness/witnessed-checkpoint.ts'
import type { TlogPolicy } from '../../config/tlog-policy.ts'
import { checkProofs } from '../../evidence/line-proofs.ts'
import { segmentsSince } from '../../evidence/records/scan-trail.ts'
import type { TrailFiles } from '../../evidence/trail-files.ts'
import { showFinding } from '../../evidence/verify/finding.ts'
import { keyOfPolicy, type TrustedKey } from '../../evidence/verify/trusted-key.ts'
import { type Verdict, verifyTrail } from '../../evidence/verify/verify-trail.ts'
import { readRegularFile } from '../../storage/regular-file.ts'
import { plural, printable } from '../../terminal/printable.ts'
import { type Command, complain, EXIT, type Given, print, UsageFault } from '../command.ts'
import { ATTESTATION_FLAGS, openKept, policyOf, witnessesNamed } from './attestation-flags.ts'
import {
  ABOUT_FILES,
  ableTo,
  FILES,
  KEY_FLAG,
  keyNamed,
  LOG_FLAG,
  Progress,
  trailsNamed,
  UNABLE,
  whenOf,
} from './trail-words.ts'

export const command: Command = {
  words: FILES,
  flags: {
    ...KEY_FLAG,
    part: {
      about: 'FILE may be a part of the trail: proves only the lines that it has',
    },
    'allow-unsealed': {
      about: 'after a crash: unsealed lines are no fault, however old they are',
    },
    since: { value: 'WHEN', about: 'does not check segments that were closed before this time' },
    ...LOG_FLAG,
    ...ATTESTATION_FLAGS,
    proof: { value: 'FILE', about: 'checks only this output of "audit prove"; - is standard input' },
  },
  about: [
    'Proves by the seals that nothing in the trail was changed, removed, added, reordered or cut off since it was sealed. Otherwise it names the first line that differs.',
    'It trusts no key that is stored beside the trail. Give it the verifier key that you noted when the key was made ("audit key --show" prints it).',
    'Whoever has the private key can seal another trail. Against that, give it a checkpoint that was kept elsewhere, the witnesses that must have signed one, or the authority of the time stamps.',
    'It says how the trail ends: sealed, as after an orderly stop; with unsealed lines, as while the gateway runs or after a crash; or cut off. Unsealed lines are a fault after an orderly stop. They are also a fault when they are more than 10 s older than the last line or the last change of the file. Records that contradict one another (a response without a request) are warnings.',
    `${ABOUT_FILES} An audit file or a directory must begin with the first line of the log, or follow the lines that a sealed AUDIT_PRUNE record names as removed. For single segments the command says which lines of the log they have. Lines missing after them are a fault, unless --part is given.`,
  ],
  examples: [
    ['countersign audit verify --key data/audit-seal-key.pem', 'the trail here'],
    [
      'countersign audit verify --key data/audit-seal-key.pem --since 7d data/audit.ndjson',
      'the last seven days',
    ],
    ['countersign audit verify --key data/audit-seal-key.pem --proof transfer.tlog-proof', 'one proof'],
  ],
  fault: 'the trail, or the proof, is not as it was sealed',
  unable: UNABLE,
  async run({ words, flags }) {
    if (flags.proof !== undefined) refuseBesideProof(words, flags)
    const policy = await ableTo(() => policyOf(flags))
    const key = await ableTo(() => keyOf(flags, policy))
    const witnesses = await ableTo(() => witnessesNamed(flags, policy))
    const proof = flags.proof
    if (proof !== undefined) return verifyProofs(proof, key, witnesses)
    let isProven = true
    for (const trail of await trailsNamed(words)) {
      const verdict = await verify(trail, key, witnesses, flags)
      show(trail, verdict)
      isProven &&= verdict.findings.length === 0
    }
    return isProven ? EXIT.good : EXIT.fault
  },
}

function keyOf(flags: Given['flags'], policy: TlogPolicy | undefined): TrustedKey {
  const isOfPolicy = flags.key === undefined && policy !== undefined && policy.logs.length > 0
  return isOfPolicy ? keyOfPolicy(policy.logs) : keyNamed(flags)
}

async function verify(
  trail: TrailFiles,
  key: TrustedKey,
  witnesses: Witnesses | undefined,
  flags: Given['flags'],
): Promise<Verdict> {
  const sinceMs = whenOf(flags, 'since')
  const progress = new Progress('verifying')
  const since = async (all: readonly Segment[]) =>
    sinceMs === undefined ? all : await segmentsSince(all, sinceMs)
  const segments = await ableTo(() => since(trail.segments))
  // A gateway may have rotated the trail meanwhile.
  const listAgain = async () => since(await segmentsOfTrail(trail.auditFile))
  const directory = flags.log ?? logDirectory(trail.auditFile)
  // The audit file stands for the whole trail, so --part does not count for it.
  const isPart = flags.part !== undefined && !trail.isWhole
  const { kept, findings } = await ableTo(() => openKept(directory, flags, witnesses))
  try {
    const verdict = await ableTo(() =>
      verifyTrail({
        segments: trail.isWhole ? listAgain : segments,
        isPart: !trail.beginsWhole || isPart || segments.length < trail.segments.length,
        endsEarly: isPart,
        isUnsealedAllowed: flags['allow-unsealed'] !== undefined,
        directory,
        key,
        kept,
        onRead: progress.show,
      }),
    )
    // Only the first and the last of many time stamps are shown.
    const first = witnesses === undefined && flags.checkpoint === undefined ? 1 : 2
    const attested = [...new Set([...verdict.attested.slice(0, first), ...verdict.attested.slice(-1)])]
    return { ...verdict, attested, findings: [...verdict.findings, ...findings] }
  } finally {
    progress.clear()
  }
}

function show({ auditFile }: TrailFiles, verdict: Verdict): void {
  const { checkpoint, findings, warnings, lines, firstLeaf, provenLines, pairs, open, tail, part, attested } =
    verdict
  // A file's name could otherwise forge a line of output.
  for (const warning of warnings) complain(printable(`warning: ${warning}`))
  for (const finding of findings) complain(printable(showFinding(finding)))
  if (checkpoint !== undefined) {
    print(
      `${printable(auditFile)}: ${plural(lines, 'line')} in ${plural(verdict.files, 'file')}, ${plural(pairs, 'pair')}${open > 0 ? `, ${plural(open, 'request')} without a response yet` : ''}`,
    )
    print(
      `log ${checkpoint.origin}: ${plural(checkpoint.size, 'sealed line')}${firstLeaf > 0 ? `, of which the first ${plural(firstLeaf, 'was', 'were')} not looked at` : ''}`,
    )
    print(`as they were sealed: ${findings.length > 0 ? 'the first ' : ''}${plural(provenLines, 'line')}`)
    print(`end: ${tail}`)
    for (const one of attested) print(`others: ${one}`)
  }
  if (findings.length > 0) print('NOT PROVEN')
  else if (part === undefined) print('proven')
  else
    print(
      `proven: these are lines ${part.first + 1} to ${part.last + 1} of the log, and nothing is said of the others`,
    )
}

/** Refuses flags that a proof does not use, because they would suggest a check that nobody made. */
function refuseBesideProof(words: readonly string[], flags: Given['flags']): void {
  const unused = ['part', 'allow-unsealed', 'since', 'log', 'checkpoint', 'stamp-authority', 'stamps'].find(
    (name) => flags[name] !== undefined,
  )
  if (unused !== undefined) throw new UsageFault(`--${unused} has no effect on a --proof: leave it out`)
  if (words.length > 0) throw new UsageFault(`--proof reads no trail: leave out ${words.join(' ')}`)
}

const PROOFS_MAX_BYTES = 64 * 1024 * 1024

async function standardInput(): Promise<Buffer> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of process.stdin as AsyncIterable<Buffer>) {
    bytes += chunk.length
    if (bytes > PROOFS_MAX_BYTES) throw new Error(`standard input has more than ${PROOFS_MAX_BYTES} bytes`)
    chunks.push(chunk)
  }
  return Buffer.concat(chunks)
}

async function verifyProofs(
  file: string,
  key: TrustedKey,
  witnesses: Witnesses | undefined,
): Promise<number> {
  const text = await ableTo(() => (file === '-' ? standardInput() : readRegularFile(file, PROOFS_MAX_BYTES)))
  const { proven, faults } = checkProofs(text.toString(), key, witnesses)
  for (const { line, index, checkpoint } of proven) {
    print(line.trimEnd())
    print(
      `  is line ${index + 1} of the log ${checkpoint.origin}, sealed with ${plural(checkpoint.size, 'line')}`,
    )
  }
  for (const fault of faults) complain(fault)
  print(faults.length === 0 ? 'proven' : 'NOT PROVEN')
  return faults.length === 0 ? EXIT.good : EXIT.fault
}
