import { makeMlDsaKey, makeSealKey, readSealKey } from '../../audit/seals/seal-key.ts'
import { formatVerifierKey } from '../../audit/seals/verifier-key.ts'
import { type Command, CommandFault, EXIT, flagValue, UsageFault } from '../command.ts'
import { complain, print } from '../print.ts'
import { ableTo, UNABLE } from './trail-words.ts'

export const command: Command = {
  words: '[FILE]',
  count: [0, 1],
  flags: {
    show: { value: 'FILE', about: 'prints the verifier keys of keys that are there, and makes none' },
    origin: {
      value: 'NAME',
      about: 'name of the log, where audit.origin gives it another than the key does',
    },
  },
  about: [
    'Makes the keys that seal the trail (PEM, mode 0600), and prints their verifier keys: FILE of Ed25519, and beside it one of ML-DSA-44, which signs the same checkpoints against quantum computers: FILE-ml-dsa-44.pem for FILE.pem. Name FILE by GATEWAY_AUDIT_SEAL_KEY; a gateway without that makes its own at the first start.',
    'Note the verifier keys where those who may write the trail cannot: they are what "audit verify --key" trusts. Programs that know Ed25519 only need the first line.',
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
    const second = file && (await ableTo(() => makeMlDsaKey(file)))
    const key = await ableTo(() => readSealKey(String(file ?? shown), flagValue(flags, 'origin')))
    print(formatVerifierKey(key.verifier))
    if (key.mlDsaVerifier !== undefined) print(formatVerifierKey(key.mlDsaVerifier))
    for (const made of [file, second]) {
      if (made !== undefined) complain(`${made} is a private key: it stays with the gateway`)
    }
    return EXIT.good
  },
}
