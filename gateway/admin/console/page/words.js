/** @import { Value } from './elements.js' */

/** @param {number} perSecond */
export function rate(perSecond) {
  return `${perSecond < 10 ? perSecond.toLocaleString('en', { maximumSignificantDigits: 2 }) : whole(perSecond)}/s`
}

/** @param {number | null | undefined} ms */
export function milliseconds(ms) {
  if (ms === null || ms === undefined) return '–'
  return `${ms < 10 ? ms.toFixed(1) : whole(ms)} ms`
}

/** Marks a latency above the bound of CountersignUpstreamSlow. @param {number | null} ms @returns {Value} */
export function latency(ms) {
  return { text: milliseconds(ms), is: ms !== null && ms > 1000 ? 'number warn' : 'number' }
}

/** @param {number} value */
export function whole(value) {
  return Math.round(value).toLocaleString('en')
}

/** @param {number} bytes */
export function megabytes(bytes) {
  return `${whole(bytes / 1024 / 1024)} MB`
}

/** @param {number} seconds */
export function duration(seconds) {
  if (seconds < 90) return `${Math.round(seconds)} s`
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`
  if (seconds < 129_600) return `${Math.round(seconds / 3600)} h`
  return `${Math.round(seconds / 86_400)} days`
}

/**
 * A time in the browser's zone; UTC under the pointer.
 * @param {number} epochMs @param {(time: string) => string} [sentence] puts the time into a sentence
 */
export function time(epochMs, sentence = (one) => one) {
  const date = new Date(epochMs)
  const utc = date
    .toISOString()
    .replace('T', ' ')
    .replace(/\.\d+Z$/, ' UTC')
  return { text: sentence(date.toLocaleString('sv')), hover: utc }
}
