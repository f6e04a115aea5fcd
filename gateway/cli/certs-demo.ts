import { type Command, CommandFault, complain, EXIT, print } from './command.ts'

export const command: Command = {
  words: '[DIRECTORY]',
  flags: { force: { about: 'overwrites existing files' } },
  about: [
    'Makes a certificate authority, a server certificate for localhost, two client certificates and revocation lists in data/certs or DIRECTORY. They are valid for 30 days, and for trials only. The command prints how to start a gateway with them.',
    'It needs two packages, which a checkout has. Elsewhere: `npm install --save-dev @peculiar/x509 reflect-metadata`.',
  ],
  examples: [
    ['countersign certs demo', 'into data/certs'],
    ['countersign certs demo --force data/my-certs', 'new certificates in another directory'],
  ],
  fault: 'certificates exist already, or the packages are not installed',
  async run({ words: [directory = 'data/certs'], flags }) {
    const { makeDemoCertificates } = await import('../tls/demo/demo-certs.ts').catch(explain)
    const { present, instructions } = await makeDemoCertificates(directory, flags.force !== undefined)
    if (present.length === 0) {
      print(instructions)
      return EXIT.good
    }
    complain(`${directory} already holds ${present.join(', ')}: --force makes them anew`)
    return EXIT.fault
  },
}

function explain(error: NodeJS.ErrnoException): never {
  if (error.code !== 'ERR_MODULE_NOT_FOUND') throw error
  throw new CommandFault(
    'needs packages that issue certificates: npm install --save-dev @peculiar/x509 reflect-metadata',
  )
}
