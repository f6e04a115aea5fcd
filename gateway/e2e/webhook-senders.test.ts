import assert from 'node:assert/strict'
import { createHmac } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { after, before, describe, it } from 'node:test'
import { sign as signGithub } from '@octokit/webhooks-methods'
import { Webhook } from 'standardwebhooks'
import Stripe from 'stripe'
import { call } from './client.ts'
import { startGateway, type TestGateway } from './running-gateway.ts'
import { startUpstream, type TestUpstream } from './test-upstream.ts'

const RECIPES = readFileSync(new URL('../../docs/operate/recipes.md', import.meta.url), 'utf8')
const STRIPE = new Stripe('sk_test_of_nobody')

type Headers = Readonly<Record<string, string>>

interface Delivery {
  readonly body: string
  readonly secret: string
  readonly id: string
  /** The time of this attempt, in epoch seconds. */
  readonly atSeconds: number
}

/** Signs as each sender, by its own library or, if that cannot sign, by its documentation. */
const SENDERS: Readonly<Record<string, (delivery: Delivery) => Headers | Promise<Headers>>> = {
  standard: (delivery) => standardHeaders('webhook', delivery),
  svix: (delivery) => standardHeaders('svix', delivery),
  stripe: ({ body, secret, atSeconds }) => ({
    'Stripe-Signature': STRIPE.webhooks.generateTestHeaderString({
      payload: body,
      secret,
      timestamp: atSeconds,
    }),
  }),
  github: async ({ body, secret, id }) => ({
    'X-GitHub-Delivery': id,
    'X-Hub-Signature-256': await signGithub(secret, body),
  }),
  // https://docs.slack.dev/authentication/verifying-requests-from-slack
  slack: ({ body, secret, atSeconds }) => ({
    'X-Slack-Request-Timestamp': String(atSeconds),
    'X-Slack-Signature': `v0=${createHmac('sha256', secret).update(`v0:${atSeconds}:${body}`).digest('hex')}`,
  }),
  // https://shopify.dev/docs/apps/build/webhooks/subscribe/https
  shopify: ({ body, secret, id }) => ({
    'X-Shopify-Webhook-Id': id,
    'X-Shopify-Hmac-Sha256': createHmac('sha256', secret).update(body).digest('base64'),
  }),
}
const NAMES = Object.keys(SENDERS)
const TIMED = ['standard', 'svix', 'stripe', 'slack']

function standardHeaders(prefix: string, { body, secret, id, atSeconds }: Delivery): Headers {
  const signature = new Webhook(secret).sign(id, new Date(atSeconds * 1000), body)
  return {
    [`${prefix}-id`]: id,
    [`${prefix}-timestamp`]: String(atSeconds),
    [`${prefix}-signature`]: signature,
  }
}

/** The scheme of a sender in the table of the recipe. */
function schemeOf(sender: string): unknown {
  const [, row] =
    new RegExp(`^\\| [^|]*\\b${sender}\\b[^|]*\\| (.+?) \\| [^|]*\\|$`, 'im').exec(RECIPES) ?? []
  const written = [...(row ?? '').matchAll(/`([^`]+)`/g)].map(([, text]) => JSON.parse(text ?? ''))
  return sender === 'svix' ? written[1] : written[0]
}

const nowSeconds = () => Math.floor(Date.now() / 1000)
const secretOf = (sender: string, which = 'new') =>
  `whsec_${createHmac('sha256', which).update(sender).digest('base64')}`
const variableOf = (sender: string, which: string) => `${sender}_${which}`.toUpperCase()

describe("a webhook that its sender's own library signs", () => {
  let upstream: TestUpstream
  let gateway: TestGateway
  let failing = false
  let made = 0

  before(async () => {
    upstream = await startUpstream((req, res) => {
      req.resume()
      req.on('end', () => {
        res.statusCode = failing ? 500 : 200
        res.end(String(req.headers['x-auth-client']))
      })
    })
    const [row] = /^\{ "path": "\/hooks\/stripe".*\}$/m.exec(RECIPES) ?? []
    const [client] = /^\{ "id": "stripe", "hmac".*\}$/m.exec(RECIPES) ?? []
    assert.ok(row !== undefined && client !== undefined)
    gateway = await startGateway({
      config: {
        upstream: upstream.url,
        authThrottle: { failures: 0 },
        routes: NAMES.map((name) => JSON.parse(row.replaceAll('stripe', name))),
      },
      clients: NAMES.map((name) => {
        const written = JSON.parse(client)
        const secrets = ['old', 'new'].map((which) => ({ env: variableOf(name, which) }))
        return {
          ...written,
          id: name,
          scopes: [],
          hmac: { ...written.hmac, scheme: schemeOf(name), secrets },
        }
      }),
      env: Object.fromEntries(
        NAMES.flatMap((name) =>
          ['old', 'new'].map((which) => [variableOf(name, which), secretOf(name, which)]),
        ),
      ),
    })
  })
  after(async () => {
    await gateway.end()
    upstream.close()
  })

  const fresh = (sender: string, given: Partial<Delivery> = {}): Delivery => {
    made++
    const body = JSON.stringify({ event: made, text: 'Zahlung über 1 €' })
    return { body, secret: secretOf(sender), id: `id_${made}`, atSeconds: nowSeconds(), ...given }
  }
  const post = async (to: string, headers: Headers, body: string) =>
    (await call(`${gateway.url}/hooks/${to}`, { method: 'POST', headers, body })).status
  const deliver = async (sender: string, delivery: Delivery) =>
    post(sender, (await SENDERS[sender]?.(delivery)) ?? {}, delivery.body)
  /** The status that each sender gets. */
  const each = async (senders: readonly string[], statusOf: (sender: string) => Promise<number>) => {
    const statuses: Record<string, number> = {}
    for (const sender of senders) statuses[sender] = await statusOf(sender)
    return statuses
  }
  const all = (status: number, senders: readonly string[] = NAMES) =>
    Object.fromEntries(senders.map((sender) => [sender, status]))

  it('passes with the configuration of the recipe, with either of two secrets', async () => {
    for (const which of ['new', 'old'])
      assert.deepEqual(
        await each(NAMES, (sender) => deliver(sender, fresh(sender, { secret: secretOf(sender, which) }))),
        all(200),
        which,
      )
  })

  it('is refused with another secret, another body, or an old time', async () => {
    const stranger = (sender: string) => deliver(sender, fresh(sender, { secret: secretOf(sender, 'x') }))
    assert.deepEqual(await each(NAMES, stranger), all(401))
    const tampered = async (sender: string) => {
      const delivery = fresh(sender)
      return post(sender, (await SENDERS[sender]?.(delivery)) ?? {}, delivery.body.replace('1 €', '9 €'))
    }
    assert.deepEqual(await each(NAMES, tampered), all(401))
    const late = (sender: string) => deliver(sender, fresh(sender, { atSeconds: nowSeconds() - 310 }))
    assert.deepEqual(await each(TIMED, late), all(401, TIMED))
  })

  it('is refused as a replay', async () => {
    const twice = async (sender: string) => {
      const delivery = fresh(sender)
      assert.equal(await deliver(sender, delivery), 200, sender)
      return deliver(sender, delivery)
    }
    assert.deepEqual(await each(NAMES, twice), all(409))
  })

  it('passes again after the service has failed', async () => {
    const again = async (sender: string) => {
      const delivery = fresh(sender, { atSeconds: nowSeconds() - 1 })
      failing = true
      const failed = await deliver(sender, delivery).finally(() => {
        failing = false
      })
      assert.equal(failed, 500, sender)
      // Senders that sign a time sign the time of each attempt.
      return deliver(sender, { ...delivery, atSeconds: nowSeconds() })
    }
    assert.deepEqual(await each(NAMES, again), all(200))
  })

  it('is refused in the form of every other scheme, even with the right secret', async () => {
    for (const sender of NAMES) {
      const others = NAMES.filter((name) => name !== sender)
      const downgraded = async (other: string) => {
        const delivery = fresh(sender)
        return post(sender, (await SENDERS[other]?.(delivery)) ?? {}, delivery.body)
      }
      assert.deepEqual(await each(others, downgraded), all(401, others), sender)
    }
  })

  it('is refused with the signature of another scheme in its own header', async () => {
    const github = fresh('github')
    const { 'X-Shopify-Hmac-Sha256': base64 = '' } = (await SENDERS.shopify?.(github)) ?? {}
    for (const signature of [base64, `sha256=${base64}`])
      assert.equal(await post('github', { 'X-Hub-Signature-256': signature }, github.body), 401)
    const shopify = fresh('shopify')
    const { 'X-Hub-Signature-256': hex = '' } = (await SENDERS.github?.(shopify)) ?? {}
    for (const signature of [hex, hex.replace('sha256=', '')])
      assert.equal(await post('shopify', { 'X-Shopify-Hmac-Sha256': signature }, shopify.body), 401)
  })
})

it("Slack's documented example is signed as documented", async () => {
  const body =
    'token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c'
  const delivery = { body, secret: '8f742231b10e8888abcd99yyyzzz85a5', id: '', atSeconds: 1531420618 }
  const { 'X-Slack-Signature': signature } = (await SENDERS.slack?.(delivery)) ?? {}
  assert.equal(signature, 'v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503')
})
