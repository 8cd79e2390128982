import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { InvalidValueError, Standin } from '../src/index.ts';
import { checkOptions, type Fetch, type StandinOptions } from '../src/options.ts';
import { batchesOf } from '../src/replacement.ts';

const OPTIONS = {
  url: 'http://127.0.0.1:8080',
  apiKey: 'stk_0123456789ABCDEFGHIJKLMNOPQR1KnaxG',
};
const bodies: string[] = [];
/** Writes strings in capitals, and refuses nothing. */
const service: Fetch = async (_, { body = '' }) => {
  bodies.push(body);
  const capitals = (_: string, one: unknown) => (typeof one === 'string' ? one.toUpperCase() : one);
  const text = JSON.stringify(JSON.parse(body, capitals));
  return { status: 200, headers: new Headers(), text: async () => text };
};

/** The answer to any data, of any type. */
function replaced(data: unknown, fields?: readonly unknown[], options: object = {}): Promise<any> {
  bodies.length = 0;
  const client: any = new Standin({ ...OPTIONS, fetch: service, ...options } as StandinOptions);
  return client.tokenize(data, { fields });
}

const inItself: Record<string, unknown> = { a: 'b' };
inItself.self = inItself;

describe.each([false, true])('what JSON would change is refused unsent, policy %s', (policy) => {
  test.each<[unknown, string]>([
    [{ a: new Date(0) }, 'data.a: must be JSON, not an instance of Date; convert it, or leave'],
    [{ a: [new Map()] }, 'data.a[0]: must be JSON, not an instance of Map'],
    [{ a: new (class {})() }, 'data.a: must be JSON, not an instance of a class'],
    [{ a: new String('b') }, 'data.a: must be JSON, not an instance of String'],
    [{ a: () => 'b' }, 'data.a: must be JSON, not a function'],
    [{ a: { toJSON: () => 'b' } }, 'data.a.toJSON: must be JSON, not a function'],
    [{ a: [Number.NaN] }, 'data.a[0]: must be JSON, not NaN'],
    [{ a: -Infinity }, 'data.a: must be JSON, not a number'],
    [{ a: new Array(2) }, 'data.a[0]: must be JSON, not undefined'],
    [new Array(1), 'data[0]: must be JSON, not undefined'],
    [[{}, { 'e mail': Symbol('c') }], 'data[1]["e mail"]: must be JSON, not a symbol'],
    [inItself, 'is nested deeper than 200 levels'],
    [new Date(0), 'data: must be JSON, not an instance of Date'],
    ['Ann Lee', 'data: must be an object or a list'],
    [undefined, 'data: must be an object or a list'],
  ])('%o', async (data, message) => {
    const error = await replaced(data, undefined, { policy }).catch((one) => one);
    expect(error).toBeInstanceOf(InvalidValueError);
    expect(error.message).toContain(message);
    expect(error).toMatchObject({ code: 'invalid_type', attempts: 0, status: undefined });
    expect(bodies).toEqual([]);
  });
});

test('undefined properties and symbols are left out, and what the caller changes meanwhile', async () => {
  const data = { a: undefined, b: ['c'], [Symbol('d')]: 'e' };
  const pending = replaced(data);
  data.b[0] = 'later';
  expect(await pending).toStrictEqual({ b: ['C'] });
});

test('of a bigint in a record only the type is sent, also where programs give it a toJSON', async () => {
  const prototype = BigInt.prototype as { toJSON?: () => string };
  prototype.toJSON = () => 'a string';
  try {
    const record = { id: 2n ** 64n, list: [null, true, -0, 1.5, 'x'] };
    const answer = await replaced(record, undefined, { policy: true });
    expect(answer).toStrictEqual({ ...record, list: [null, true, -0, 1.5, 'X'] });
    expect(bodies).toEqual(['{"data":{"id":0,"list":[null,true,0,1.5,"x"]}}']);
  } finally {
    delete prototype.toJSON;
  }
});

test('200 levels are not too deep, one more is', async () => {
  const deep = (levels: number) => JSON.parse(`${'['.repeat(levels)}"a"${']'.repeat(levels)}`);
  expect(await replaced(deep(200))).toEqual(JSON.parse(JSON.stringify(deep(200)).toUpperCase()));
  await expect(replaced(deep(201))).rejects.toThrow(/\]: is nested deeper than 200 levels/);
});

test('nothing is no request', async () => {
  expect(await replaced([{ a: [] }])).toEqual([{ a: [] }]);
  expect(await replaced([], ['a'])).toEqual([]);
  expect(bodies).toEqual([]);
});

test('any structure comes back with its names in their order', async () => {
  const { structure } = fc.letrec((tie) => ({
    structure: fc.oneof(
      { maxDepth: 4 },
      fc.string({ unit: 'binary' }),
      fc.array(tie('structure'), { maxLength: 5 }),
      fc.dictionary(fc.string({ unit: 'binary', maxLength: 60 }), tie('structure'), { maxKeys: 5 }),
    ),
  }));
  const records = fc.array(fc.record({ a: structure }), { maxLength: 5 });
  const capitals = (_: string, one: unknown) => (typeof one === 'string' ? one.toUpperCase() : one);
  await fc.assert(
    fc.asyncProperty(records, fc.boolean(), async (data, policy) => {
      const answer = await replaced(data, undefined, { policy, maxValues: 100 });
      expect(JSON.stringify(answer)).toBe(JSON.stringify(data, capitals));
    }),
  );
});

const born = new Date(0);
const plan = new Map([['a', 1]]);
const record = () => ({
  id: 7,
  email: 'a@x',
  phone: null,
  born,
  plan,
  tags: ['b', null, 'c'],
  'full name': 'ann',
  orders: [
    { to: 'one', total: 1.5, note: 'x' },
    { to: 'two', total: 2n },
  ],
});

describe('only the strings at `fields` change', () => {
  test.each<[string[], object]>([
    [['email', 'email', '["email"]'], { email: 'A@X' }],
    [['phone'], {}],
    [['tags[0]', 'tags[*]', 'tags[9]?'], { tags: ['B', null, 'C'] }],
    [['["full name"]', 'full name', 'fax?', 'fax.home?'], { 'full name': 'ANN' }],
    [
      ['orders[*].to', 'orders[*].note?'],
      {
        orders: [
          { ...record().orders[0], to: 'ONE', note: 'X' },
          { to: 'TWO', total: 2n },
        ],
      },
    ],
  ])('%j', async (fields, changes) => {
    const data = record();
    const answer = await replaced(data, fields);
    expect(answer).toStrictEqual({ ...record(), ...changes });
    expect(Object.keys(answer)).toEqual(Object.keys(data));
    expect(data).toStrictEqual(record());
    expect([answer.born, answer.plan]).toEqual([born, plan]);
  });

  test('in every record of a list, and under the names of Object', async () => {
    expect(await replaced([{ a: 'x', b: 1 }, { a: null }], ['a'])).toEqual([
      { a: 'X', b: 1 },
      { a: null },
    ]);
    const data = JSON.parse('{"__proto__":"a","constructor":"b","c":{"toString":"d"}}');
    const answer = await replaced(data, ['__proto__', 'constructor', 'c.toString']);
    expect(JSON.stringify(answer)).toBe('{"__proto__":"A","constructor":"B","c":{"toString":"D"}}');
    await expect(replaced({}, ['constructor'])).rejects.toThrow('data.constructor: is missing');
  });

  test.each<[string, string]>([
    ['emial', 'data.emial: is missing; if it may be, write a question mark after the field'],
    ['orders[*].note', 'data.orders[1].note: is missing'],
    ['tags[3]', 'data.tags[3]: is missing'],
    ['id', 'data.id: must be a string, not a number'],
    ['born', 'data.born: must be a string, not an instance of Date'],
    ['born.year', 'data.born: must be a plain object, as the field says'],
    ['plan.a?', 'data.plan: must be a plain object'],
    ['tags', 'data.tags: must be a string, not an instance of Array'],
    ['tags.length', 'data.tags: must be a plain object'],
    ['email[*]', 'data.email: must be a list'],
  ])('%s cannot be replaced, and is refused with its path', async (field, message) => {
    await expect(replaced(record(), [field])).rejects.toThrow(InvalidValueError);
    await expect(replaced([record()], [field])).rejects.toThrow(message.replace('data', 'data[0]'));
    expect(bodies).toEqual([]);
  });

  test.each(['', '.a', 'a..b', 'a b]', 'a[b]', 'a[*', 'a??', '?', '["\\x"]', '["a"', 'a,b', 7])(
    '%j is no path',
    async (field) => {
      await expect(replaced({ a: 'x' }, [field])).rejects.toThrow(/^fields: /);
    },
  );

  test.each([[[]], ['email'], [{}]])('fields: %j is refused', async (fields) => {
    await expect(replaced({ a: 'x' }, fields as never)).rejects.toThrow('fields: must be a list');
    const named = replaced({ a: 'x' }, fields as never, { policy: true });
    await expect(named).rejects.toThrow('fields: leave them out, because the policy names');
  });
});

test('batches have all values in order, and are filled as far as their bounds allow', () => {
  const bounds = [fc.integer({ min: 1, max: 10 }), fc.integer({ min: 1, max: 200 })] as const;
  fc.assert(
    fc.property(
      fc.array(fc.string({ unit: 'binary' })),
      ...bounds,
      (values, maxValues, maxBytes) => {
        const settings = checkOptions({ ...OPTIONS, maxValues, maxBytes });
        const call = { operation: 'tokenize', settings } as const;
        const around = ['{"data":{"values":[', ']}}'];
        const write = (value: string) => [JSON.stringify(value), 1] as const;
        const batches = [...batchesOf(call, values, around, write)];
        expect(batches.flatMap((batch) => batch.items)).toEqual(values);
        batches.forEach(({ items, body }, i) => {
          expect(JSON.parse(body)).toEqual({ data: { values: items } });
          expect(items.length).toBeLessThanOrEqual(maxValues);
          if (items.length > 1) expect(Buffer.byteLength(body)).toBeLessThanOrEqual(maxBytes);
          // The first of the next would have been too much.
          const [next] = batches[i + 1]?.items ?? [];
          const bytes = Buffer.byteLength(`${body},${JSON.stringify(next)}`);
          if (next !== undefined) expect(items.length === maxValues || bytes > maxBytes).toBe(true);
        });
      },
    ),
  );
});
