import assert from 'node:assert/strict'
import { once } from 'node:events'
import { type AddressInfo, connect, createServer } from 'node:net'
import { test } from 'node:test'
import { call } from './client.ts'
import { commonGateway, startGateway } from './running-gateway.ts'
import { startUpstream } from './test-upstream.ts'

test('a gateway whose upstream leads back to it refuses the request at its second visit', async () => {
  const ports: number[] = []
  const relay = createServer((socket) => {
    const onward = connect(ports[0] as number, '127.0.0.1')
    socket.pipe(onward).pipe(socket)
    socket.on('error', () => onward.destroy())
    onward.on('error', () => socket.destroy())
  })
  relay.listen(0, '127.0.0.1')
  await once(relay, 'listening')
  const upstream = `http://127.0.0.1:${(relay.address() as AddressInfo).port}`
  const gateway = await commonGateway({ config: { upstream, routes: [{ path: '/*', auth: ['none'] }] } })
  ports[0] = gateway.port
  for (let i = 0; i < 4; i++) {
    const response = await call(`${gateway.url}/round`, { headers: { 'x-request-id': `round-${i}` } })
    assert.deepEqual([response.status, response.json().code], [508, 'loop_detected'])
    assert.equal(response.headers['x-frame-options'], 'DENY')
  }
  const rounds = gateway.audit().filter(({ type, path }) => type === 'API_REQUEST' && path === '/round')
  assert.equal(rounds.length, 8, 'each request came here twice')
  relay.close()
})

test('one gateway behind another is no loop, and CDN-Loop names both', async () => {
  const upstream = await startUpstream()
  const routes = [{ path: '/*', auth: ['none'] }]
  const inner = await commonGateway({ config: { upstream: upstream.url, routes } })
  const outer = await startGateway({ config: { upstream: inner.url, routes } })
  const { status } = await call(`${outer.url}/a`, { headers: { 'cdn-loop': 'other.example; a=b' } })
  assert.equal(status, 200)
  const [first, second, third, more] = String(upstream.seen[0]?.headers['cdn-loop']).split(', ')
  assert.deepEqual([first, more], ['other.example; a=b', undefined])
  for (const mark of [second, third]) assert.match(String(mark), /^countersign; id=[0-9a-f]{16}$/)
  assert.notEqual(second, third)
  await outer.end()
  upstream.close()
})
