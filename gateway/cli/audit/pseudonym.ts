import { text } from 'node:stream/consumers'
import { existingOnly, readMaskKey } from '../../config/secret-line.ts'
import { pseudonym } from '../../edge/rules/policy/path-mask.ts'
import { CONFIG_FLAGS, type Command, CommandFault, EXIT, environmentOf, print } from '../command.ts'
import { readSettings } from '../explain/row-reasons.ts'
import { ableTo, UNABLE } from './trail-words.ts'

export const command: Command = {
  flags: CONFIG_FLAGS,
  about: [
    'Reads a value from standard input, without its line end, and prints its pseudonym: 16 hexadecimal digits, which replace the value in paths of the trail ({name:DIGITS}). Write the value without percent-encoding. Letter case matters; the name of the parameter does not.',
    'The key is in "maskKeyFile" of gateway.json, or in the data directory. For an older key use a gateway.json whose "maskKeyFile" is the older file.',
  ],
  examples: [
    ['countersign audit pseudonym < iban.txt', 'the pseudonym of an IBAN'],
    [
      'countersign audit find --path "$(countersign audit pseudonym < iban.txt)"',
      'every request about this IBAN',
    ],
  ],
  fault: 'the configuration has faults, or no value was given',
  unable: UNABLE,
  async run({ flags }) {
    const settings = readSettings(environmentOf(flags))
    if (!settings.routes.some(({ mask }) => mask)) throw new CommandFault('no row masks anything')
    const value = (await text(process.stdin)).replace(/\r?\n$/, '')
    if (value === '') throw new CommandFault('no value came on standard input')
    print(pseudonym(value, await ableTo(() => readMaskKey(settings, existingOnly))))
    return EXIT.good
  },
}
