import type { Decision } from '../auth/decisions/decider.ts'
import type { DecisionTerms } from '../config/settings.ts'
import { segmentsOf, textOf } from '../edge/rules/path-template.ts'
import { percentDecoded } from '../edge/syntax/characters.ts'
import type { Exchange } from '../exchange.ts'
import type { Gateway } from '../gateway.ts'
import { andThen, type Outcome, type Refusal, refusal } from '../refusals.ts'
import { readMembers } from './body/json-body.ts'

/** Asks a decider if the request may go on (AuthZEN Authorization API 1.0). */
export function decide(gateway: Gateway, exchange: Exchange): Outcome {
  const terms = exchange.route?.decision
  if (terms === undefined) return undefined
  if (terms.members.length === 0) return ask(gateway, exchange, terms, [])
  return readMembers(gateway, exchange, terms.members, (values) => ask(gateway, exchange, terms, values))
}

function ask(
  gateway: Gateway,
  exchange: Exchange,
  terms: DecisionTerms,
  values: readonly (string | undefined)[],
): Outcome {
  const decider = gateway.deciders.get(terms.key)
  if (decider === undefined) throw new Error('a row with a decision has no decider')
  const parameters = parametersIn(exchange.path, terms)
  if (parameters === undefined)
    return refusal('invalid_target', {
      cause: 'a parameter of the template has ";" or splits a percent-encoded octet',
    })
  const question = questionOf(exchange, terms, { parameters, values })
  return andThen(decider.decide(question, exchange), (decision) => settle(gateway, exchange, decision))
}

/** Parameters of the path. Undefined if one splits a percent-encoded octet, or has `;`, where some services end the value. */
function parametersIn(path: string, terms: DecisionTerms): object | undefined {
  const segments = segmentsOf(path)
  const written = terms.parameters.map((place) => textOf(place, segments))
  const values = written.map(percentDecoded)
  if (written.some((text) => text.includes(';')) || values.includes(undefined)) return undefined
  return Object.fromEntries(terms.parameters.map(({ name }, index) => [name, values[index]]))
}

/** An evaluation request (section 6.1). Numbers of the body are as written. */
function questionOf(
  { principal, method, route }: Exchange,
  { members }: DecisionTerms,
  { parameters, values }: { readonly parameters: object; readonly values: readonly (string | undefined)[] },
): string {
  if (principal === undefined) throw new Error('a decision needs a caller')
  const { subject, client, scopes, acr } = principal
  const who = { type: 'identity', id: subject ?? client }
  const context = JSON.stringify({ client, scopes: [...scopes], acr, parameters })
  const body = members.flatMap(({ pointer }, index) =>
    values[index] === undefined ? [] : [`${JSON.stringify(pointer)}:${values[index]}`],
  )
  return (
    `{"subject":${JSON.stringify(who)},"action":${JSON.stringify({ name: method })}` +
    `,"resource":${JSON.stringify({ type: 'route', id: route?.path })}` +
    `,"context":${context.slice(0, -1)},"body":{${body.join(',')}}}}`
  )
}

function settle(
  { metrics }: Gateway,
  exchange: Exchange,
  { outcome, id, cause }: Decision,
): Refusal | undefined {
  if (outcome !== 'client_gone') metrics.gateway_decisions_total.count(exchange.route?.path ?? '', outcome)
  exchange.decisionId = id
  if (outcome === 'allowed') return undefined
  if (outcome === 'denied') return refusal('decision_denied', { cause: `decision ${id ?? 'without an id'}` })
  return refusal('decision_unavailable', { headers: ['Retry-After', '5'], cause })
}
