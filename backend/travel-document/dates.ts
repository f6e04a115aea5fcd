/** No document is valid for longer. */
const EXPIRY_WINDOW_YEARS = 50

/** True when `YYMMDD` can be a day up to `today`. `<<` stands for an unknown part. */
export function isBirthDate(text: string, today: Date): boolean {
  if (text === '<<<<<<') return true
  const year = Number(text.slice(0, 2))
  const month = text.slice(2, 4)
  const day = text.slice(4, 6)
  if (month === '<<') return day === '<<'
  if (day === '<<') return Number(month) >= 1 && Number(month) <= 12
  const century = Math.floor(today.getUTCFullYear() / 100) * 100
  return [century, century - 100].some((base) => {
    const date = calendarDay(base + year, Number(month), Number(day))
    return date !== undefined && date <= today
  })
}

/** Reads the last valid day from `YYMMDD`, in the year nearest to `today`; `undefined` when there is no such day. */
export function expiryDay(text: string, today: Date): Date | undefined {
  const thisYear = today.getUTCFullYear()
  let year = Math.floor(thisYear / 100) * 100 + Number(text.slice(0, 2))
  if (year >= thisYear + EXPIRY_WINDOW_YEARS) year -= 100
  if (year < thisYear - EXPIRY_WINDOW_YEARS) year += 100
  return calendarDay(year, Number(text.slice(2, 4)), Number(text.slice(4, 6)))
}

export function isInForce(expiry: Date, today: Date): boolean {
  return expiry.getTime() + 24 * 60 * 60 * 1000 > today.getTime()
}

/** Midnight UTC; `undefined` for a day that does not exist (`Date` would take a later day). */
function calendarDay(year: number, month: number, day: number): Date | undefined {
  const date = new Date(Date.UTC(year, month - 1, day))
  return date.getUTCMonth() === month - 1 && date.getUTCDate() === day ? date : undefined
}
