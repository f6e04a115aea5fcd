import { once } from 'node:events'
import { startGateway } from './gateway.ts'
import { startUpstream } from './upstream.ts'
import { openWire, statuses } from './wire.ts'
const held: any[] = []
const upstream = await startUpstream((req, res) => {
  const raw = (s: string, close = true) => { res.socket!.write(Buffer.from(s, 'latin1')); if (close) res.socket!.end() }
  if (req.url!.startsWith('/slow')) { held.push(res); req.resume(); setTimeout(() => res.end('slow'), 400); return }
  if (req.url === '/ctl') return raw('HTTP/1.1 200 OK\r\nX-A: a\x01b\r\nContent-Length: 0\r\n\r\n')
  if (req.url === '/ctl2') return raw('HTTP/1.1 200 OK\r\nX-A: a\x01b\r\nContent-Length: 3\r\n\r\nabc')
  if (req.url === '/ctl3') return raw('HTTP/1.1 200 OK\r\nX-A: a\x7fb\r\nContent-Length: 3\r\n\r\nabc')
  if (req.url === '/s999') return raw('HTTP/1.1 999 OK\r\nContent-Length: 3\r\n\r\nabc')
  if (req.url === '/s99') return raw('HTTP/1.1 099 OK\r\nContent-Length: 3\r\n\r\nabc')
  if (req.url === '/s600') return raw('HTTP/1.1 600 OK\r\nContent-Length: 3\r\n\r\nabc')
  if (req.url === '/sse') { res.writeHead(200, {'content-type': 'text/event-stream'}); res.flushHeaders(); setTimeout(() => res.end('late'), 600); return }
  if (req.url === '/early') { res.writeHead(403, {'content-length': 5}); res.end('early'); return }
  let n = 0
  req.on('data', (c) => (n += c.length)).on('end', () => { res.end(JSON.stringify({ m: req.method, u: req.url, h: req.rawHeaders, n })) })
})
upstream.server.on('upgrade', (req, socket) => {
  socket.on('error', () => {})
  socket.write('HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\nhello')
  socket.on('data', (d) => socket.write('echo:' + d))
})
const gw = await startGateway({ config: { upstream: upstream.url, routes: [{ path: '/private', auth: ['bearer'] }, { path: '/*', auth: ['none'], maxBodyBytes: 2e8 }] }, env: {GATEWAY_LOG_LEVEL: 'debug'} })
gw.process.child.on('exit', (c, s) => console.log('!!! GATEWAY EXIT', c, s, gw.process.plain().slice(0, 800)))
async function t(name: string, bytes: string, o: { fin?: boolean; wait?: number } = {}) {
  const w = await openWire(gw.port)
  w.send(bytes); if (o.fin) w.socket.end()
  await new Promise((r) => setTimeout(r, o.wait ?? 300))
  console.log('##', name, statuses(w.received), w.over, JSON.stringify(w.received.replace(/Strict-T[^]*?no-store\r\n/g, '').slice(0, 900)))
  w.socket.destroy()
}
const H = 'Host: h\r\n'
const WS = 'Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n'
await t('ctl CL0', `GET /ctl HTTP/1.1\r\n${H}\r\n`)
await t('ctl2', `GET /ctl2 HTTP/1.1\r\n${H}\r\n`)
await t('ctl3', `GET /ctl3 HTTP/1.1\r\n${H}\r\n`)
await t('999', `GET /s999 HTTP/1.1\r\n${H}\r\n`)
await t('600', `GET /s600 HTTP/1.1\r\n${H}\r\n`)
await t('099', `GET /s99 HTTP/1.1\r\n${H}\r\n`)
await t('half-close', `GET /slow HTTP/1.1\r\n${H}\r\n`, { fin: true, wait: 800 })
await t('half-close fast', `GET /fast HTTP/1.1\r\n${H}\r\n`, { fin: true, wait: 300 })
await t('ws no connection', `GET /ws HTTP/1.1\r\n${H}${WS.replace('Connection: Upgrade\r\n', '')}\r\n`)
await t('ws', `GET /ws HTTP/1.1\r\n${H}${WS}\r\nxyz`)
await t('ws 1.0', `GET /ws HTTP/1.0\r\n${H}${WS}\r\n`)
await t('upgrade foo POST', `POST /a HTTP/1.1\r\n${H}Connection: Upgrade\r\nUpgrade: foo\r\nContent-Length: 5\r\n\r\nhelloGET /b HTTP/1.1\r\n${H}\r\n`)
await t('h2c', `GET /a HTTP/1.1\r\n${H}Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n\r\nGET /b HTTP/1.1\r\n${H}\r\n`)
await t('1.0 expect', `POST /a HTTP/1.0\r\n${H}Expect: 100-continue\r\nContent-Length: 2\r\n\r\nhi`)
await t('GET body', `GET /a HTTP/1.1\r\n${H}Content-Length: 2\r\n\r\nhi`)
await t('DELETE chunked', `DELETE /a HTTP/1.1\r\n${H}Transfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\nAuthorization: evil\r\n\r\nGET /b HTTP/1.1\r\n${H}\r\n`)
await t('sse', `GET /sse HTTP/1.1\r\n${H}\r\n`, { wait: 300 })
await t('close then data', `GET /slow HTTP/1.1\r\n${H}Connection: close\r\n\r\n\r\nGET /b HTTP/1.1\r\n${H}\r\n`, { wait: 800 })
await t('bad pipelined body', `GET /slow HTTP/1.1\r\n${H}\r\nPOST /slow2 HTTP/1.1\r\n${H}Transfer-Encoding: chunked\r\n\r\nzz\r\n`, { wait: 1500 })
await t('pipelined CONNECT', `GET /slow HTTP/1.1\r\n${H}\r\nCONNECT a:1 HTTP/1.1\r\n${H}\r\n`, { wait: 900 })
await t('pipelined ws', `GET /slow HTTP/1.1\r\n${H}\r\nGET /ws HTTP/1.1\r\n${H}${WS}\r\n`, { wait: 900 })
await t('alive?', `GET /alive HTTP/1.1\r\n${H}\r\n`)
{ const w = await openWire(gw.port); w.send(`POST /early HTTP/1.1\r\n${H}Content-Length: 5000000\r\n\r\n`); w.send(Buffer.alloc(5000000, 97)); await new Promise(r=>setTimeout(r, 1000)); console.log('## early 5MB', statuses(w.received), w.over, w.received.slice(0,30)); w.socket.destroy() }
for (const te of ['Content-Length: 5000000', 'Content-Length: 5000000\r\nExpect: 100-continue']) { const w = await openWire(gw.port, {paused: true}); let got = ''; w.send(`POST /private HTTP/1.1\r\n${H}${te}\r\n\r\n`); w.socket.write(Buffer.alloc(5000000, 97), () => { w.socket.on('data', d => (got += d)) }); await new Promise(r=>setTimeout(r, 1500)); console.log('## 401 5MB', statuses(got), w.over); w.socket.destroy() }
console.log(gw.audit().filter(r => r.type === 'API_RESPONSE').map(r => `${r.method} ${r.path} ${r.statusCode} ${r.duration}`).join('\n'))
console.log('inflight', await gw.metric('gateway_http_requests_in_flight').catch(e => e.message))
console.log(gw.process.lines.filter(l => Number(l.level) >= 40).map(l => JSON.stringify(l).slice(0, 300)).join('\n'))
process.exit(0)
