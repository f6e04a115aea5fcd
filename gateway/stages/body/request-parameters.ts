import type { RequestParameter, RequestRules } from '../../config/openapi/compiled-operations.ts'
import type { Misfit } from '../../config/openapi/schema-fits.ts'
import { parseCheckedJson } from '../../edge/bodies/checked-json.ts'
import { segmentsOf, textOf } from '../../edge/rules/path-template.ts'
import { percentDecoded, withoutSpaceAround } from '../../edge/syntax/characters.ts'
import type { Field } from '../../edge/syntax/field.ts'
import type { Exchange } from '../../exchange.ts'

/** An integer that all services read alike: they differ on `1e2` and `1.0`. */
const INTEGER = /^-?(?:0|[1-9]\d*)$/
/** A number of JSON. Services differ on other spellings, such as `0x10`. */
const NUMBER = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/

interface ParameterMisfit extends Misfit {
  readonly parameter: RequestParameter
}

/** @param fields as the service gets them */
export function parameterMisfit(
  { parameters }: RequestRules,
  { path, query }: Pick<Exchange, 'path' | 'query'>,
  fields: readonly Field[],
): ParameterMisfit | undefined {
  let segments: readonly string[] | undefined
  let search: URLSearchParams | undefined
  for (const parameter of parameters) {
    let texts: readonly string[]
    if (parameter.at !== undefined) {
      segments ??= segmentsOf(path)
      // A template may split a percent-encoded octet.
      const text = percentDecoded(textOf(parameter.at, segments))
      if (text === undefined)
        return { parameter, pointer: '', reason: 'must not split a percent-encoded octet' }
      texts = [text]
    } else if (parameter.in === 'query') {
      search ??= new URLSearchParams(query)
      texts = search.getAll(parameter.name)
    } else texts = fields.filter(({ lower }) => lower === parameter.name).map(({ value }) => value)
    const misfit = misfitOf(parameter, texts)
    if (misfit !== undefined) return { parameter, ...misfit }
  }
  return undefined
}

function misfitOf(parameter: RequestParameter, texts: readonly string[]): Misfit | undefined {
  const { required, form, fits } = parameter
  const [first, another] = texts
  if (first === undefined) return required ? { pointer: '', reason: 'is missing' } : undefined
  if (form === 'unread') return undefined
  const text = parameter.in === 'header' ? texts.join(', ') : first
  const isOne = another === undefined || parameter.in === 'header'
  // Services differ in which of several values they take.
  if (form !== 'repeated' && !isOne) return { pointer: '', reason: 'must occur once' }
  if (form === 'single') return singleMisfit(text, parameter)
  if (form !== 'json') {
    const list = form === 'commas' ? text.split(',').map(withoutSpaceAround) : texts
    const misfit = listMisfit(list, parameter)
    // The schema may allow one value in place of a list.
    return misfit && isOne && singleMisfit(text, parameter) === undefined ? undefined : misfit
  }
  const json = parseCheckedJson(Buffer.from(text))
  return 'fault' in json ? { pointer: '', reason: json.fault } : fits(json.value)
}

/** A text that may also mean a number or boolean passes when the text or its other meaning fits. */
function singleMisfit(text: string, { types, fits }: RequestParameter): Misfit | undefined {
  const value = meant(text, types)
  const misfit = fits(value)
  if (misfit === undefined || value === text || !types.has('string')) return misfit
  return fits(text) === undefined ? undefined : misfit
}

/** Reads each item as `singleMisfit` does. */
function listMisfit(
  texts: readonly string[],
  { types, fits, eachFits }: RequestParameter,
): Misfit | undefined {
  const values = texts.map((text) => meant(text, types))
  const misfit = fits(values)
  if (misfit === undefined) return undefined
  if (eachFits === undefined) return types.has('string') && fits(texts) === undefined ? undefined : misfit
  const valueFits = eachFits(values)
  const textFits = eachFits(texts)
  const read = values.map((value, at) => (!valueFits[at] && textFits[at] ? texts[at] : value))
  return fits(read) === undefined ? undefined : misfit
}

function meant(text: string, types: ReadonlySet<string>): unknown {
  if (types.has('number') ? NUMBER.test(text) : types.has('integer') && INTEGER.test(text))
    return Number(text)
  if (types.has('boolean') && (text === 'true' || text === 'false')) return text === 'true'
  return text
}
