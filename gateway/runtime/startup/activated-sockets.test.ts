import assert from 'node:assert/strict'
import { test } from 'node:test'
import { socketsFromSystemd } from './activated-sockets.ts'

const sockets = (env: Record<string, string>, hasTls = true) => socketsFromSystemd(env, { pid: 7, hasTls })

test('sockets of systemd are known by their names, and a single one is for HTTP', () => {
  assert.deepEqual(sockets({}), {})
  assert.deepEqual(sockets({ LISTEN_PID: '8', LISTEN_FDS: '1' }), {})
  assert.deepEqual(sockets({ LISTEN_PID: '7', LISTEN_FDS: '1' }), { http: { fd: 3 } })
  assert.deepEqual(sockets({ LISTEN_PID: '7', LISTEN_FDS: '1', LISTEN_FDNAMES: 'countersign.socket' }), {
    http: { fd: 3 },
  })
  assert.deepEqual(sockets({ LISTEN_PID: '7', LISTEN_FDS: '1', LISTEN_FDNAMES: 'admin' }), {
    admin: { fd: 3 },
  })
  assert.deepEqual(sockets({ LISTEN_PID: '7', LISTEN_FDS: '2', LISTEN_FDNAMES: 'https:http' }), {
    https: { fd: 3 },
    http: { fd: 4 },
  })
})

test('sockets of systemd with other names stop the start', () => {
  for (const names of ['http:metrics', 'http:http', 'http']) {
    assert.throws(
      () => sockets({ LISTEN_PID: '7', LISTEN_FDS: '2', LISTEN_FDNAMES: names }),
      /FileDescriptorName= must be one of http, https, admin, each once/,
    )
  }
})

test('a socket of systemd and a port that the gateway shares exclude each other, except for the admin listener', () => {
  const env = { LISTEN_PID: '7', LISTEN_FDS: '1', LISTEN_FDNAMES: 'admin', GATEWAY_REUSE_PORT: 'true' }
  assert.deepEqual(sockets(env), { admin: { fd: 3 } })
  assert.throws(
    () => sockets({ ...env, LISTEN_FDNAMES: 'https' }),
    /systemd passes the socket https, .* GATEWAY_REUSE_PORT/,
  )
})

test('a socket of systemd for HTTPS stops the start of a gateway without TLS, which would leave its clients waiting', () => {
  const env = { LISTEN_PID: '7', LISTEN_FDS: '1', LISTEN_FDNAMES: 'https' }
  assert.deepEqual(sockets(env), { https: { fd: 3 } })
  assert.throws(() => sockets(env, false), /systemd passes the socket https, .* no HTTPS listener: set "tls"/)
})
