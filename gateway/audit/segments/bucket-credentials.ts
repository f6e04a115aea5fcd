import { readFileSync } from 'node:fs'

/** Reads lines such as `aws_access_key_id = …`, as in ~/.aws/credentials. */
export function credentialsIn(file: string) {
  const lines = readFileSync(file, 'utf8').matchAll(/^[ \t]*(aws_\w+)[ \t]*=[ \t]*(\S+)[ \t]*$/gim)
  const read = Object.fromEntries([...lines].map(([, name = '', value = '']) => [name.toUpperCase(), value]))
  const { AWS_ACCESS_KEY_ID: accessKeyId, AWS_SECRET_ACCESS_KEY: secretAccessKey } = read
  if (!accessKeyId || !secretAccessKey) {
    throw new Error(`${file} has no AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY`)
  }
  const sessionToken = read.AWS_SESSION_TOKEN
  return { accessKeyId, secretAccessKey, ...(sessionToken && { sessionToken }) }
}
