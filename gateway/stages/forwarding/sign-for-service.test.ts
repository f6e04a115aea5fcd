import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { MessageSigner } from '../../auth/signatures/message-signer.ts'
import { Field } from '../../edge/syntax/field.ts'
import { CommonFields } from '../../upstream/common-fields.ts'
import { makeExchange, makeGateway, makeRoute } from '../stage.test-support.ts'
import { signForService } from './sign-for-service.ts'

const SENDING = { rewrite: undefined, isRaw: false, host: undefined, namesTarget: true }
const NOTHING = { allowed: new Set<string>(), removed: new Set<string>(), added: [] }

test('a signed request names the service by the scheme of its group and the Host sent', () => {
  let uri: string | undefined
  const signer = {
    sign: (components: Parameters<MessageSigner['sign']>[0]) => {
      uri = components.find(([name]) => name === '"@target-uri"')?.[1]
      return { input: '()', value: '' }
    },
  } as object as MessageSigner
  const { gateway } = makeGateway({ signer })
  const { exchange } = makeExchange()
  for (const [signedTarget, namesTarget, wanted] of [
    ['http://a:81', false, 'http://api.example:8080/x?y'],
    ['unix:/run/a.sock', false, 'http://api.example:8080/x?y'],
    ['h2c://a', false, 'http://api.example:8080/x?y'],
    ['https://a', false, 'https://api.example:8080/x?y'],
    ['h2://a', false, 'https://api.example:8080/x?y'],
    ['https://a:8443', true, 'https://a:8443/x?y'],
    ['http://a:80', true, 'http://a/x?y'],
  ] as const) {
    exchange.route = makeRoute({ sending: { ...SENDING, ...NOTHING, namesTarget } })
    const fields: Field[] = []
    const common = new CommonFields([new Field('host', 'API.example:8080')])
    signForService(gateway, exchange, { target: '/x?y', common, fields, hasBody: false, signedTarget })
    assert.equal(uri, wanted, signedTarget)
    assert.deepEqual(
      fields.map(({ name }) => name),
      ['Signature-Input', 'Signature'],
    )
  }
})
