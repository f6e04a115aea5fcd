/** Formats of texts that are checked; others say nothing. Each takes time linear in the text. */
export const FORMATS: Readonly<Record<string, true | ((text: string) => boolean)>> = {
  uuid: matches(/^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i),
  date: isDate,
  'date-time': isDateTime,
  ipv4: matches(/^(?:(?:25[0-5]|2[0-4]\d|1?\d?\d)(?:\.(?!$)|$)){4}$/),
  byte: matches(/^[A-Za-z0-9+/]*={0,2}$/),
}

function matches(pattern: RegExp): (text: string) => boolean {
  return (text) => pattern.test(text)
}

/** RFC 3339 full-date. */
function isDate(text: string): boolean {
  if (!/^\d{4}-\d{2}-\d{2}$/.test(text)) return false
  const date = new Date(`${text}T00:00:00Z`)
  return !Number.isNaN(date.getTime()) && date.toISOString().startsWith(text)
}

/** RFC 3339 date-time. */
function isDateTime(text: string): boolean {
  const [, date = '', hour, second] =
    /^(\d{4}-\d{2}-\d{2})[Tt]([01]\d|2[0-3]):[0-5]\d:([0-5]\d|60)(?:\.\d{1,9})?(?:[Zz]|[+-](?:[01]\d|2[0-3]):[0-5]\d)$/.exec(
      text,
    ) ?? []
  return hour !== undefined && second !== undefined && isDate(date)
}
