import { ALL_ATTACKS } from './all-attacks.ts'

// One attack in a process of its own, so that it does not delay the bystanders. `process.argv[2]` names it.

const [, , name = '', port, tlsPort, adminPort, keyFile = ''] = process.argv
await ALL_ATTACKS[name]?.begin(
  { port: Number(port), tlsPort: Number(tlsPort), adminPort: Number(adminPort) },
  keyFile,
)
process.send?.('begun')
// Keeps its connections until this process is ended.
setInterval(() => {}, 60_000)
