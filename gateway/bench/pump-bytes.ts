import { readFileSync } from 'node:fs'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { connect as connectSecurely, createServer as createSecureServer } from 'node:tls'

// The lower bound: copies bytes between two sockets without looking at them. `process.argv[2]` holds `PumpSettings`.

export interface PumpSettings {
  readonly upstreamPort: number
  readonly tls?: { readonly certFile: string; readonly keyFile: string } | undefined
  readonly upstreamCaFile?: string | undefined
}

const { upstreamPort: port, tls, upstreamCaFile } = JSON.parse(process.argv[2] as string) as PumpSettings
const ca = upstreamCaFile === undefined ? undefined : readFileSync(upstreamCaFile)
const place = { host: '127.0.0.1', port, noDelay: true }
const pump = (downstream: Socket) => {
  const upstream =
    ca === undefined ? connect(place) : connectSecurely({ ...place, ca, servername: 'localhost' })
  upstream.on('error', () => downstream.destroy())
  downstream.on('error', () => upstream.destroy())
  downstream.pipe(upstream)
  upstream.pipe(downstream)
}
const server =
  tls === undefined
    ? createServer({ noDelay: true }, pump)
    : createSecureServer(
        { noDelay: true, cert: readFileSync(tls.certFile), key: readFileSync(tls.keyFile) },
        pump,
      )
server.listen(0, '127.0.0.1', () => process.send?.({ port: (server.address() as AddressInfo).port }))
process.on('disconnect', () => process.exit(0))
