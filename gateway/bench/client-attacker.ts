import { ALL_ATTACKS } from './all-attacks.ts'

// Runs the attack `process.argv[2]` in its own process, so that it does not delay bystanders.

const [, , name = '', port, tlsPort, adminPort, keyFile = ''] = process.argv
await ALL_ATTACKS[name]?.begin(
  { port: Number(port), tlsPort: Number(tlsPort), adminPort: Number(adminPort) },
  keyFile,
)
process.send?.('begun')
// Keeps this process running, with its connections, until it is ended.
setInterval(() => {}, 60_000)
