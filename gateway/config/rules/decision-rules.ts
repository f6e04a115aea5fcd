import { pointerSteps } from '../../edge/syntax/json-pointer.ts'
import type { DetailsTerms, JsonMember } from '../settings.ts'
import type { AnyRow } from './row-rules.ts'

export function detailsTerms({ type, match }: NonNullable<AnyRow['authorizationDetails']>): DetailsTerms {
  return {
    type,
    details: Object.keys(match).map(memberOf),
    members: Object.values(match).map(memberOf),
  }
}

function memberOf(pointer: string): JsonMember {
  return { pointer, steps: pointerSteps(pointer) }
}
