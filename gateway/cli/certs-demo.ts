import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { type Command, CommandFault, EXIT } from './command.ts'
import { complain, print } from './print.ts'

const EXTENSION = import.meta.url.endsWith('.ts') ? 'ts' : 'js'
/** It needs packages that only a checkout has, so the package of the gateway leaves it out. */
const MODULE = new URL(`../tls/demo/demo-certs.${EXTENSION}`, import.meta.url)

/** Not by the type of the module, which would compile it into the package. */
interface DemoCerts {
  makeDemoCertificates(
    directory: string,
    force: boolean,
  ): Promise<{ readonly present: readonly string[]; readonly instructions: string }>
}

export const command: Command = {
  words: '[DIRECTORY]',
  count: [0, 1],
  flags: { force: { about: 'overwrites those that are there' } },
  about: [
    'Makes an authority, a server certificate for localhost, two client certificates and revocation lists, valid for 30 days, in data/certs or DIRECTORY. It prints how to start a gateway with them. Never use them for anything real.',
    'Only in a checkout: the package of the gateway has nothing that issues certificates.',
  ],
  examples: [
    ['countersign certs demo', 'into data/certs'],
    ['countersign certs demo --force data/my-certs', 'anew, into another directory'],
  ],
  fault: 'there are certificates already, or this is no checkout',
  async run({ words: [directory = 'data/certs'], flags }) {
    if (!existsSync(fileURLToPath(MODULE))) {
      throw new CommandFault(
        'certificates for a demo are made in a checkout of Countersign: this package leaves that out',
      )
    }
    const { makeDemoCertificates } = (await import(MODULE.href)) as DemoCerts
    const { present, instructions } = await makeDemoCertificates(directory, flags.force === true)
    if (present.length === 0) {
      print(instructions)
      return EXIT.good
    }
    complain(`${directory} already holds ${present.join(', ')}: --force makes them anew`)
    return EXIT.fault
  },
}
