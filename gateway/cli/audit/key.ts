import { makeMlDsaKey, makeSealKey, mlDsaKeyFile, readSealKey } from '../../audit/seals/seal-key.ts'
import { formatVerifierKey } from '../../audit/seals/signed-note.ts'
import { type Command, CommandFault, complain, EXIT, print, UsageFault } from '../command.ts'
import { ableTo, UNABLE } from './trail-words.ts'

export const command: Command = {
  words: '[FILE]',
  flags: {
    second: { about: 'also makes a key of ML-DSA-44 beside FILE, for audit.secondSealKey' },
    show: { value: 'FILE', about: 'prints the verifier keys of an existing key, and makes none' },
    origin: {
      value: 'NAME',
      about: 'name of the log, if audit.origin in gateway.json differs from the name in the key',
    },
  },
  about: [
    'Makes the Ed25519 key that seals the trail (PEM, mode 0600), and prints its verifier key. Set GATEWAY_AUDIT_SEAL_KEY to FILE; otherwise the gateway makes its own key at the first start. With --second it also makes a key of ML-DSA-44 (FILE-ml-dsa-44.pem for FILE.pem), whose signatures quantum computers cannot forge; FILE may then exist.',
    'Keep the verifier keys where nobody who can write the trail can change them. Programs that know only Ed25519 need the first line of the output.',
  ],
  examples: [
    ['countersign audit key secrets/audit-seal-key.pem', 'a new key'],
    ['countersign audit key --show data/audit-seal-key.pem', 'the key that a gateway made'],
  ],
  fault: 'the file exists already',
  unable: UNABLE,
  async run({ words: [file], flags }) {
    const shown = flags.show
    if ((file === undefined) === (shown === undefined))
      throw new UsageFault('needs either FILE or --show FILE')
    const made: string[] = []
    if (file !== undefined) {
      if (await ableTo(() => makeSealKey(file))) made.push(file)
      const second = flags.second !== undefined && (await ableTo(() => makeMlDsaKey(file)))
      if (second) made.push(second)
      const there = flags.second !== undefined ? `${file} and ${mlDsaKeyFile(file)} are` : `${file} is`
      if (made.length === 0) throw new CommandFault(`${there} there already, and nothing is overwritten`)
    }
    const { verifier, mlDsaVerifier } = await ableTo(() => readSealKey(String(file ?? shown), flags.origin))
    print(formatVerifierKey(verifier))
    if (mlDsaVerifier !== undefined) print(formatVerifierKey(mlDsaVerifier))
    for (const key of made) complain(`${key} is a private key: it stays with the gateway`)
    return EXIT.good
  },
}
