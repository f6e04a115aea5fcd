import { withoutSpaceAround } from './characters.ts'

/** Whether a Connection field has an option, given in lower case (RFC 9110 section 7.6.1). */
export function hasOption(options: string, option: string): boolean {
  if (options === option) return true
  if (options === 'keep-alive') return false
  return options.split(',').some((one) => withoutSpaceAround(one).toLowerCase() === option)
}
