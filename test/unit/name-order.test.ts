import fc from 'fast-check';
import { expect, test } from 'vitest';
import { collectFields, parseBody } from '../../src/http/data.ts';
import { jsonBytes, largeAnswer } from '../../src/http/large-answer.ts';
import { jsonParts, jsonText, nameOrder } from '../../src/http/name-order.ts';
import { MISREADS_NAMES } from '../../src/service/misread-names.ts';

/** JSON whose objects are lists of members, so that their order is known. */
type Ordered = string | Ordered[] | { readonly members: readonly (readonly [string, Ordered])[] };

const name = fc
  .oneof(
    fc.nat().map(String),
    fc.constantFrom('0', '01', '-1', '1.5', '4294967294', '4294967295', '9007199254740993', ' 1'),
    fc.constantFrom('', '"', '\\', '\\"', ' __proto__', 'data', 'toString', '١'),
    fc.string(),
  )
  .filter((one) => one !== '__proto__' && !(MISREADS_NAMES && one.endsWith('\\')));

const { object } = fc.letrec<{ json: Ordered; object: Ordered }>((tie) => ({
  json: fc.oneof({ maxDepth: 4 }, fc.string(), fc.array(tie('json')), tie('object')),
  object: fc
    .uniqueArray(fc.tuple(name, tie('json')), { selector: ([one]) => one })
    .map((members) => ({ members })),
}));

function write(json: Ordered): string {
  if (typeof json === 'string') return JSON.stringify(json);
  if (Array.isArray(json)) return `[${json.map(write).join(',')}]`;
  const members = json.members.map(([name, inner]) => `${JSON.stringify(name)}:${write(inner)}`);
  return `{${members.join(',')}}`;
}

test('any names keep their order, and only bodies that need it are read twice', () => {
  fc.assert(
    fc.property(object, (json) => {
      const text = write(json);
      const body = Buffer.from(` {"9":{"data":":"}, "data" : ${text},"1":[] }`);
      const { data } = parseBody(body);
      const { isReordered } = collectFields(data, 10_000);
      expect(jsonText(data, isReordered ? nameOrder(body, data) : undefined)).toBe(text);
      if (!/"\d+":/.test(text)) expect(isReordered).toBe(false);
    }),
  );
});

test('an answer in pieces keeps it, too', async () => {
  const text = '{"b":"x","10":["y",{"2":"z","1":"w"}],"2":{}}';
  const body = Buffer.from(`{"data":${text}}`);
  const { data } = parseBody(body);
  const order = nameOrder(body, data);
  const strings = collectFields(data, 10).fields.map((field) => field.text);
  const answer = largeAnswer(
    { before: '{', data: (write) => jsonParts(data, write, order), list: [], after: '}' },
    jsonBytes(strings),
    async () => {},
    () => {},
  );
  const sent = Buffer.concat(await answer.body.toArray()).toString();
  expect(sent).toBe(`{${text}}`);
  expect(answer.bytes).toBe(sent.length);
});
