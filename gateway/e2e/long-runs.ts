/** By how much random tests run more often than under `npm test`: `npm run test:long` says so in TEST_LONG. */
export const LONGER = Number(process.env.TEST_LONG ?? '1')
