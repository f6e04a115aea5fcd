import { makeSealKey, readSealKey } from '../../audit/seals/seal-key.ts'
import { formatVerifierKey } from '../../audit/seals/verifier-key.ts'
import { type Command, CommandFault, EXIT, flagValue, UsageFault } from '../command.ts'
import { complain, print } from '../print.ts'
import { ableTo, UNABLE } from './trail-words.ts'

export const command: Command = {
  words: '[FILE]',
  count: [0, 1],
  flags: {
    show: { value: 'FILE', about: 'prints the verifier key of a key that is there, and makes none' },
    origin: {
      value: 'NAME',
      about: 'name of the log, where audit.origin gives it another than the key does',
    },
  },
  about: [
    'Makes a key that seals the trail (Ed25519, PEM, mode 0600), and prints its verifier key. Name the file by GATEWAY_AUDIT_SEAL_KEY; a gateway without that makes its own at the first start.',
    'Note the verifier key where those who may write the trail cannot: it is what "audit verify --key" trusts.',
  ],
  examples: [
    ['countersign audit key secrets/audit-seal-key.pem', 'a new key'],
    ['countersign audit key --show data/audit-seal-key.pem', 'that which a gateway has made'],
  ],
  fault: 'the file is there already',
  unable: UNABLE,
  async run({ words: [file], flags }) {
    const shown = flagValue(flags, 'show')
    if ((file === undefined) === (shown === undefined))
      throw new UsageFault('needs either FILE or --show FILE')
    if (file !== undefined && !(await ableTo(() => makeSealKey(file)))) {
      throw new CommandFault(`${file} is there already, and nothing is overwritten`)
    }
    const { verifier } = await ableTo(() => readSealKey(String(file ?? shown), flagValue(flags, 'origin')))
    print(formatVerifierKey(verifier))
    if (file !== undefined) complain(`${file} is the private key: it stays with the gateway`)
    return EXIT.good
  },
}
