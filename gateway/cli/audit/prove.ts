import { logDirectory } from '../../audit/seals/tiles.ts'
import { proveLines } from '../../evidence/line-proofs.ts'
import { findRecords } from '../../evidence/records/find-records.ts'
import { type Command, CommandFault, EXIT, JSON_FLAG, UsageFault } from '../command.ts'
import { proveMessage } from './prove-message.ts'
import {
  ABOUT_FILES,
  ableTo,
  FILES,
  KEY_FLAG,
  LOG_FLAG,
  Progress,
  trailsNamed,
  UNABLE,
} from './trail-words.ts'

export const command: Command = {
  words: FILES,
  flags: {
    request: { value: 'ID', about: 'the request whose records are proven' },
    message: {
      value: 'FILE',
      about: 'proves that the client of the request has signed this message',
    },
    response: {
      value: 'FILE',
      about: 'proves that the gateway has signed this response to the message',
    },
    everywhere: {
      about: 'reads the whole trail, and so also finds later requests in which a client used the id again',
    },
    ...LOG_FLAG,
    ...KEY_FLAG,
    ...JSON_FLAG,
  },
  about: [
    'Writes to standard output a proof of the records of a request, for somebody who has only the verifier key. It is a C2SP tlog-proof for each record: the record, its path in the tree and the signed checkpoint. It shows nothing else of the trail.',
    'If witnesses have signed a checkpoint over these records, it uses the last such one. "audit verify --proof" checks the proof. So does any verifier of tlog-proof, if you split the output before each line "c2sp.org/tlog-proof@v1".',
    'With --message FILE it says instead which checks a signed message passes. The file has the request line, headers, an empty line and the body, as sent. --response, --key and --json need --message.',
    ABOUT_FILES,
  ],
  examples: [
    [
      'countersign audit prove --request my-request-1 > transfer.tlog-proof',
      'a proof for the other side of a dispute',
    ],
    [
      'countersign audit prove --request my-request-1 --message transfer.http --key data/audit-seal-key.pem',
      'what the client has signed',
    ],
  ],
  fault: 'there is no such request, it is not sealed, its log is damaged, or its client has not signed FILE',
  unable: UNABLE,
  async run({ words, flags }) {
    const request = flags.request
    if (request === undefined) throw new UsageFault('needs --request ID')
    if (flags.message !== undefined) return proveMessage({ words, flags }, request, flags.message)
    const unused = ['response', 'key', 'json'].find((name) => flags[name] !== undefined)
    if (unused !== undefined) throw new UsageFault(`--${unused} needs --message FILE`)
    const search = { filter: { request }, everywhere: flags.everywhere !== undefined }
    const progress = new Progress('searching')
    let count = 0
    for (const { auditFile, segments } of await trailsNamed(words)) {
      const lines: Buffer[] = []
      const found = { onRecord: (line: Buffer) => lines.push(Buffer.from(line)), onRead: progress.show }
      await ableTo(() => findRecords(segments, search, found))
      progress.clear()
      if (lines.length === 0) continue
      count += lines.length
      const directory = flags.log ?? logDirectory(auditFile)
      for (const proof of await ableTo(() => proveLines(directory, lines))) process.stdout.write(proof)
    }
    if (count === 0) throw new CommandFault(`no record of the request ${request} was found`)
    return EXIT.good
  },
}
