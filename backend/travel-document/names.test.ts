import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { nameMatches } from './names.ts'

const printed = (names: string) => names.padEnd(39, '<')

function assertMatches(name: string, names: string): void {
  assert.equal(nameMatches(name, printed(names)), true, `${name} is ${names}`)
}

function assertDiffers(name: string, names: string): void {
  assert.equal(nameMatches(name, printed(names)), false, `${name} is not ${names}`)
}

describe('nameMatches', () => {
  it('takes the family name last or first', () => {
    assertMatches('Anna Maria Eriksson', 'ERIKSSON<<ANNA<MARIA')
    assertMatches('Eriksson Anna Maria', 'ERIKSSON<<ANNA<MARIA')
    assertMatches('Eriksson, Anna Maria', 'ERIKSSON<<ANNA<MARIA')
    assertMatches('ludwig van beethoven', 'VAN<BEETHOVEN<<LUDWIG')
  })

  it('lets further given names be left out, but not the first one, nor any of the family', () => {
    assertMatches('Anna Eriksson', 'ERIKSSON<<ANNA<MARIA')
    assertMatches('Anna Sofia Eriksson', 'ERIKSSON<<ANNA<MARIA<SOFIA')
    assertDiffers('Maria Eriksson', 'ERIKSSON<<ANNA<MARIA')
    assertDiffers('Eriksson', 'ERIKSSON<<ANNA<MARIA')
    assertDiffers('Anna Maria', 'ERIKSSON<<ANNA<MARIA')
    assertDiffers('Anna García', 'GARCIA<LOPEZ<<ANNA')
  })

  it('refuses given names that the document does not have, or has in another order', () => {
    assertDiffers('Anna Eva Eriksson', 'ERIKSSON<<ANNA<MARIA')
    assertDiffers('Anna Sofia Maria Eriksson', 'ERIKSSON<<ANNA<MARIA<SOFIA')
    assertDiffers('Ann Eriksson', 'ERIKSSON<<ANNA')
    assertDiffers('Anna Erikssons', 'ERIKSSON<<ANNA')
  })

  it('transliterates marks and letters of Doc 9303 part 3 section 6, in each spelling it allows', () => {
    assertMatches('José Muñoz', 'MUNOZ<<JOSE')
    assertMatches('José Muñoz', 'MUNXXOZ<<JOSE')
    assertMatches('Jürgen Müller', 'MUELLER<<JUERGEN')
    assertMatches('Jürgen Müller', 'MULLER<<JURGEN')
    assertMatches('Jürgen Müller', 'MUXXLLER<<JUXXRGEN')
    assertMatches('Søren Ångström', 'AANGSTROEM<<SOEREN')
    assertMatches('Günter Weiß', 'WEISS<<GUENTER')
    assertMatches('Łukasz Żółć', 'ZOLC<<LUKASZ')
    assertMatches('Þórður Ægisson', 'AEGISSON<<THORDUR')
    assertMatches('Işık Yılmaz', 'YILMAZ<<ISIK')
    assertMatches('Mu\u0308ller Ju\u0308rgen', 'MUELLER<<JUERGEN')
    assertDiffers('Jürgen Müller', 'MOLLER<<JURGEN')
  })

  it('leaves out apostrophes and points, and takes hyphens as a space', () => {
    assertMatches("Mary Jane O'Connor-Smith", 'OCONNOR<SMITH<<MARY<JANE')
    assertMatches('Jean‐Luc D’Artois', 'DARTOIS<<JEAN<LUC')
    assertMatches('J. Smith', 'SMITH<<J')
  })

  it('knows holders of one name', () => {
    assertMatches('Arkfreith', 'ARKFREITH')
    assertDiffers('Anna Arkfreith', 'ARKFREITH')
  })

  it('compares a name that was cut to fit the field only up to the cut', () => {
    // Doc 9303 part 4 section 4.2.3: the examples of truncation.
    const cutGiven = 'NILAVADHANANANDA<<CHAYAPA<DEJTHAMRONG<K'
    assert.equal(cutGiven.length, 39)
    assert.equal(nameMatches('Chayapa Dejthamrong Krasuang Nilavadhanananda', cutGiven), true)
    assert.equal(nameMatches('Chayapa Dejthamrong Surat Nilavadhanananda', cutGiven), false)
    const cutFamily = 'BENNELONG<WOOLOOMOOLOO<WARRANDYTE<W<<DI'
    assert.equal(cutFamily.length, 39)
    assert.equal(nameMatches('Dingo Potoroo Bennelong Wooloomooloo Warrandyte Warnambool', cutFamily), true)
    assert.equal(nameMatches('Dingo Bennelong Wooloomooloo Warrandyte', cutFamily), false)
    assertDiffers('Dingo Bennelong', 'BENNE<<DINGO')
  })

  it('refuses names in letters that it cannot transliterate', () => {
    assertDiffers('Анна Эрикссон', 'ERIKSSON<<ANNA')
    assertDiffers('李 小龙', 'LI<<XIAOLONG')
    assertDiffers('4nna Eriksson', 'ERIKSSON<<ANNA')
  })
})
