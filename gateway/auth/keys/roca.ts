/** The first odd primes. */
const PRIMES = [
  3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71, 73, 79, 83, 89, 97, 101, 103, 107,
  109, 113, 127, 131, 137, 139, 149, 151, 157, 163, 167,
]

/** For each prime, the remainders of powers of 65537. */
const MARKS: readonly (readonly [prime: bigint, remainders: ReadonlySet<number>])[] = PRIMES.map((prime) => [
  BigInt(prime),
  powersOf(65_537 % prime, prime),
])

/**
 * Whether an RSA modulus may come from the flawed generator of ROCA (CVE-2017-15361), whose keys can be factored: modulo
 * every small prime it is a power of 65537. One sound modulus in 2^27 is too.
 */
export function isRocaModulus(modulus: bigint): boolean {
  return MARKS.every(([prime, remainders]) => remainders.has(Number(modulus % prime)))
}

function powersOf(base: number, prime: number): ReadonlySet<number> {
  const powers = new Set<number>()
  for (let power = 1; !powers.has(power); power = (power * base) % prime) powers.add(power)
  return powers
}
