import { expect, test } from 'vitest';
import { DETECTORS } from '../../src/detect/detectors.ts';
import { chosen, finderOf, foundOf } from '../../src/detect/found.ts';

const settings = DETECTORS.map((detector) => ({ detector, kind: detector, country: 'US' }));
const find = finderOf(settings);

/** `kind: what was found`, in the order of the text. */
function foundIn(text: string): string[] {
  const found = chosen(text, foundOf(find(text), settings), []);
  return found.map(({ from, to, kind }) => `${kind}: ${text.slice(from, to)}`);
}

test.each([
  ['an address before a telephone number', 'host 26.231.114.51 is away', 'ip: 26.231.114.51'],
  ['an address before its port', 'to 10.4.12.7:8443 refused', 'ip: 10.4.12.7'],
  ['an address of version 6', 'from fe80::1:22', 'ip: fe80::1:22'],
  ['a number before its extension', 'call 212-555-0100x87', 'phone: 212-555-0100'],
  ['a number of the country', 'call (666) 224-1702.', 'phone: (666) 224-1702'],
])('finds %s', (_, text, found) => {
  expect(foundIn(text)).toEqual([found]);
});

/** JSON within a text, such as the arguments of a tool. */
test.each([
  ['card', '4111 1111 1111 1111'],
  ['iban', 'GB82 WEST 1234 5698 7654 32'],
  ['phone', '+44 20 7946 0958'],
  ['phone', '(666)224-1702'],
  ['ip', '10.4.12.7'],
])('finds a %s behind an escape of JSON: %s', (kind, value) => {
  for (const quoted of ['\\n', '\\t', '\\r', '\\u00a0', '\\ud83d\\udc4b'])
    expect(foundIn(`{"note":"a:${quoted}${value}${quoted}"}`), quoted).toEqual([
      `${kind}: ${value}`,
    ]);
});

test.each([
  'ISBN 978-3-16-148410-0',
  'on 2024-07-03 07:27:52',
  'version 1.2.3 of 12.11.2026',
  'a number in a word: x4111111111111111',
])('finds nothing in: %s', (text) => {
  expect(foundIn(text)).toEqual([]);
});
