import { type AddressInfo, connect, createServer } from 'node:net'

// The lower bound: copies bytes between two sockets without looking at them. `process.argv[2]` is the upstream's
// port.

const upstreamPort = Number(process.argv[2])
const server = createServer({ noDelay: true }, (downstream) => {
  const upstream = connect({ host: '127.0.0.1', port: upstreamPort, noDelay: true })
  upstream.on('error', () => downstream.destroy())
  downstream.on('error', () => upstream.destroy())
  downstream.pipe(upstream)
  upstream.pipe(downstream)
})
server.listen(0, '127.0.0.1', () => process.send?.({ port: (server.address() as AddressInfo).port }))
process.on('disconnect', () => process.exit(0))
